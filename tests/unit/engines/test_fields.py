import pytest

from knowngood.engines.fields import is_said, read_fields, read_items

CONFIG = (
    "model='/m/a, b', speculative_config=SpeculativeConfig(method='ngram', num_spec_tokens=4), dtype=torch.bfloat16, "
    "compilation_config={'mode': <CompilationMode.NONE: 0>, 'sizes': [1, 2]}, note='it\\'s -> here', last=True"
)


def test_pairs_are_taken_apart_at_outer_commas() -> None:
    found = read_fields(CONFIG)
    assert list(found) == ["model", "speculative_config", "dtype", "compilation_config", "note", "last"]
    assert found["compilation_config"] == "{'mode': <CompilationMode.NONE: 0>, 'sizes': [1, 2]}"
    assert found["last"] == "True"


def test_they_end_where_the_call_ends() -> None:
    assert read_fields("a=1, b=(2, 3)) and more, c=4") == {"a": "1", "b": "(2, 3)"}
    assert read_items("'a': 1, 'b': {'c': 2}} and 'd': 4") == {"a": "1", "b": "{'c': 2}"}
    assert read_fields("") == {}


@pytest.mark.parametrize(
    ("asked", "said", "expected"),
    [
        ("4", "4", True),
        ("4", "8", False),
        ("0.80", "0.8", True),
        ("bfloat16", "torch.bfloat16", True),
        ("x", "'x'", True),
        ("x", "None", False),
        ("auto", "'flashinfer'", True),
        ("TRUE", "True", True),
        (None, "True", True),
        (None, "False", False),
        (None, "'x'", None),
        ('{"method": "ngram", "k": 4}', "SpeculativeConfig(method='ngram', k=4)", True),
        ('{"method": "ngram", "k": 4}', "SpeculativeConfig(method='ngram', k=3)", False),
        ('{"method": "ngram"}', "None", None),
        ('{"mode": 3, "inner": {"a": true}}', "{'mode': 3, 'inner': {'a': True, 'b': 1}}", True),
        ("{broken", "None", None),
        ("[1, 2]", "[1, 2]", None),
    ],
)
def test_values_are_compared_as_people_would(asked: str | None, said: str, *, expected: bool | None) -> None:
    assert is_said(asked, said) is expected
