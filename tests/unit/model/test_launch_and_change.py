from hypothesis import given
from hypothesis import strategies as st

from knowngood.model.change import ChangeSet, Env, Flag
from knowngood.model.launch import LaunchSpec, flag_values, is_value, spellings, without_flag

ALIASES = {"--threads": "-t", "-t": "-t"}


def spec(*argv: str, **env: str) -> LaunchSpec:
    return LaunchSpec(argv=argv, env=env)


def test_negative_numbers_are_values_and_flags_are_not() -> None:
    assert is_value("-1")
    assert is_value("-.5")
    assert is_value("on")
    assert is_value("-")
    assert not is_value("-t")
    assert not is_value("--flag")


def test_a_flag_is_taken_away_in_every_spelling_with_its_value() -> None:
    argv = ("server", "-t", "2", "--threads=3", "--mlock", "-np", "1", "--threads", "4")
    assert without_flag(argv, ("-t", "--threads")) == ("server", "--mlock", "-np", "1")


def test_a_flag_with_a_common_prefix_stays() -> None:
    assert without_flag(("s", "--threads-batch", "2", "-tb", "1"), ("-t", "--threads")) == (
        "s",
        "--threads-batch",
        "2",
        "-tb",
        "1",
    )


def test_a_bare_flag_before_another_flag_takes_no_value_along() -> None:
    assert without_flag(("s", "--mlock", "-t", "2"), ("--mlock",)) == ("s", "-t", "2")


def test_setting_a_flag_replaces_all_spellings() -> None:
    changes = ChangeSet(members=(Flag(flag="-t", value="4"),))
    assert changes.on(spec("s", "--threads", "2", "-t=1"), aliases=ALIASES).argv == ("s", "-t", "4")


def test_an_appended_flag_leaves_the_others() -> None:
    changes = ChangeSet(members=(Flag(flag="--lora", value="b", append=True),))
    assert changes.on(spec("s", "--lora", "a"), aliases={}).argv == ("s", "--lora", "a", "--lora", "b")


def test_a_removed_flag_is_gone() -> None:
    changes = ChangeSet(members=(Flag(flag="--mlock", remove=True),))
    assert changes.on(spec("s", "--mlock", "-t", "2"), aliases={}).argv == ("s", "-t", "2")


def test_env_is_set_and_unset_and_set_again() -> None:
    off = ChangeSet(members=(Env(name="A"),)).on(spec("s", A="1"), aliases={})
    assert (off.env, off.unset) == ({}, ("A",))
    on = ChangeSet(members=(Env(name="A", value="2"),)).on(off, aliases={})
    assert (on.env, on.unset) == ({"A": "2"}, ())


def test_the_baseline_is_never_altered() -> None:
    before = spec("s", A="1")
    ChangeSet(members=(Env(name="A", value="2"), Flag(flag="-x"))).on(before, aliases={})
    assert before == spec("s", A="1")


def test_values_of_a_flag_in_both_notations() -> None:
    assert flag_values(("s", "-t", "2", "--threads=3", "-t", "--other"), ("-t", "--threads")) == ("2", "3", None)


def test_spellings_start_with_the_canonical_one() -> None:
    assert spellings("--threads", ALIASES) == ("-t", "--threads")
    assert spellings("--unknown", ALIASES) == ("--unknown",)


def test_ipv6_addresses_get_brackets() -> None:
    assert LaunchSpec(argv=("s",), address="::1", port=80).url == "http://[::1]:80"


@given(st.lists(st.sampled_from(["-a", "-b", "1", "x", "-a=1", "-1"]), max_size=8))
def test_removing_a_flag_twice_changes_nothing_more(argv: list[str]) -> None:
    once = without_flag(argv, ("-a",))
    assert without_flag(once, ("-a",)) == once
    assert flag_values(once, ("-a",)) == ()
