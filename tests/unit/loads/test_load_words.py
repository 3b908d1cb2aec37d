import random

from knowngood.loads.words import WORDS, Draw, ask

FIXED = Draw(32, 0, 1, 0)


def test_a_request_depends_on_index_and_seed_only() -> None:
    assert ask(5, isl=FIXED, osl=FIXED, seed=1) == ask(5, isl=FIXED, osl=FIXED, seed=1)
    assert ask(5, isl=FIXED, osl=FIXED, seed=1) != ask(5, isl=FIXED, osl=FIXED, seed=2)
    assert ask(5, isl=FIXED, osl=FIXED, seed=1) != ask(6, isl=FIXED, osl=FIXED, seed=1)


def test_generated_prompts_share_no_prefix_of_a_cache_block() -> None:
    prompts = [ask(index, isl=FIXED, osl=FIXED, seed=0).prompt for index in range(-100, 400)]
    assert len({tuple(prompt.split()[:16]) for prompt in prompts}) == len(prompts)


def test_words_are_plain_and_unlike() -> None:
    assert len(set(WORDS)) == len(WORDS) > 200
    assert all(word.isascii() and word.isalpha() and word.islower() for word in WORDS)


def test_lengths_keep_their_bounds() -> None:
    rng = random.Random(0)
    drawn = [Draw(64, 40, 30, 90).length(rng) for _ in range(500)]
    assert min(drawn) == 30
    assert max(drawn) == 90
    assert Draw(0, 0, 0, 0).length(rng) == 1
    assert Draw(64.4, 0, 1, 0).length(rng) == 64


def test_given_prompts_are_taken_in_turn_warm_up_from_the_end() -> None:
    prompts = ("a", "b", "c")
    taken = [ask(index, isl=FIXED, osl=FIXED, seed=0, prompts=prompts).prompt for index in (-1, 0, 1, 2, 3)]
    assert taken == ["c", "a", "b", "c", "a"]


def test_given_prompts_do_not_change_the_output_lengths() -> None:
    osl = Draw(64, 20, 1, 0)
    generated = [ask(index, isl=FIXED, osl=osl, seed=0).tokens for index in range(20)]
    assert generated == [ask(index, isl=FIXED, osl=osl, seed=0, prompts=("x",)).tokens for index in range(20)]
    assert len(set(generated)) > 5
