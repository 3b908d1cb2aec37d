"""A toy language model behind real HTTP, and candidates that sample it wrongly."""

import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from knowngood.errors import LoadError
from knowngood.loads.answers import Endpoint, Server, ask, compare, score
from knowngood.model.evidence import AnswerCheck
from knowngood.reason.answers import Comparison, check, passes

WORDS = tuple(f" w{n:02}" for n in range(31))
PROMPTS = tuple(f" w{n:02} w{n * 3 % 31:02}" for n in range(20))
N_TOKENS = 12
NEAR, CLEAR = 0.05, 4.0

Pick = Callable[[int], int]
"""Number of answered tokens to the rank of the token that is taken next."""


def greedy(_at: int) -> int:
    return 0


def distribution(ids: list[int]) -> list[tuple[int, float]]:
    """Three likely words; every third position is a near tie."""
    best = (sum(ids) * 7 + len(ids)) % len(WORDS)
    second = NEAR if len(ids) % 3 == 0 else CLEAR
    return [(best, -0.5), ((best + 5) % len(WORDS), -0.5 - second), ((best + 9) % len(WORDS), -9.0)]


def tokenize(text: str) -> list[int]:
    return [WORDS.index(f" {word}") for word in text.split()]


class Toy:
    """What a server does: how it samples, which form it answers in, how it fails."""

    def __init__(self, pick: Pick = greedy, *, logprobs: str = "content", cut: int = 0) -> None:
        self.pick = pick
        self.logprobs = logprobs
        self.cut = cut
        self.requests: list[dict[str, Any]] = []

    def generate(self, ids: list[int], n: int) -> list[int]:
        out: list[int] = []
        while len(out) < n - self.cut:
            out.append(distribution(ids + out)[self.pick(len(ids) + len(out) - 2)][0])
        return out

    def steps(self, ids: list[int], out: list[int]) -> list[dict[str, Any]]:
        return [
            {
                "token": WORDS[token],
                "id": token,
                "logprob": 0.0,
                "top_logprobs": [
                    {"token": WORDS[one], "id": one, "logprob": value} for one, value in distribution(ids + out[:at])
                ],
            }
            for at, token in enumerate(out)
        ]

    def reply(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(body)
        if path == "/tokenize":
            return {"tokens": tokenize(body["content"])}
        if path == "/detokenize":
            spelled: list[int] = body["tokens"]
            return {"content": "".join(WORDS[one] for one in spelled)}
        ids = tokenize(body["prompt"]) if isinstance(body["prompt"], str) else body["prompt"]
        out = self.generate(ids, body.get("n_predict") or body["max_tokens"])
        text = "".join(WORDS[one] for one in out)
        steps = self.steps(ids, out)
        if path == "/completion":
            listed = steps if body["n_probs"] and self.logprobs else []
            return {"content": text, "tokens": out, "tokens_predicted": len(out), "completion_probabilities": listed}
        logprobs: dict[str, Any] | None = None
        if body.get("logprobs") and self.logprobs == "content":
            logprobs = {"content": steps}
        elif body.get("logprobs") and self.logprobs == "dict":
            top = [{one["token"]: one["logprob"] for one in step["top_logprobs"]} for step in steps]
            logprobs = {"tokens": [WORDS[one] for one in out], "top_logprobs": top}
        return {"choices": [{"text": text, "logprobs": logprobs}], "usage": {"completion_tokens": len(out)}}


@contextmanager
def serving(reply: Callable[[str, dict[str, Any]], object], endpoint: Endpoint, status: int = 200) -> Generator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            content = json.dumps(reply(self.path, body)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Server(url=f"http://127.0.0.1:{server.server_port}", endpoint=endpoint, timeout_s=10)
        finally:
            server.shutdown()
            thread.join()


def compare_all(candidate: Toy, endpoint: Endpoint, baseline: Toy | None = None) -> tuple[Comparison, ...]:
    with serving((baseline or Toy()).reply, endpoint) as base, serving(candidate.reply, endpoint) as other:
        mine, theirs = (ask(one, PROMPTS, n_tokens=N_TOKENS) for one in (base, other))
        return tuple(compare(base, a, b) for a, b in zip(mine, theirs, strict=True))


def check_all(candidate: Toy, endpoint: Endpoint, baseline: Toy | None = None) -> AnswerCheck:
    return check(compare_all(candidate, endpoint, baseline))


both = pytest.mark.parametrize("endpoint", ["llamacpp", "openai"])


@both
def test_equal_answers_are_the_same(endpoint: Endpoint) -> None:
    found = check_all(Toy(), endpoint)
    assert (found.asked, found.same) == (20, 20)
    assert passes(found, "same")[0]


@both
def test_differences_at_near_ties_are_equivalent_but_not_the_same(endpoint: Endpoint) -> None:
    # Two tokens of prompt: the near ties are at answered tokens 1, 4, 7 and 10.
    compared = compare_all(Toy(lambda at: int(at in (4, 7))), endpoint)
    found = check(compared)
    assert (found.same, found.near_ties) == (0, 20)
    assert passes(found, "equivalent")[0]
    assert not passes(found, "same")[0]
    assert all(len(one.partings) == 2 for one in compared)
    assert all(parting.gap == pytest.approx(NEAR) for one in compared for parting in one.partings)


@both
@pytest.mark.parametrize("at", [0, 5, N_TOKENS - 1])
def test_a_token_that_the_baseline_would_not_say_is_wrong(endpoint: Endpoint, at: int) -> None:
    compared = compare_all(Toy(lambda now: int(now == at)), endpoint)
    found = check(compared)
    assert found.wrong == 20
    assert not passes(found, "equivalent")[0]
    assert all(one.partings[0].gap == pytest.approx(CLEAR) for one in compared)


def test_another_limit_for_near_ties_is_obeyed() -> None:
    with serving(Toy().reply, "llamacpp") as base, serving(Toy(lambda at: int(at == 4)).reply, "llamacpp") as other:
        (mine,), (theirs,) = (ask(one, PROMPTS[:1], n_tokens=N_TOKENS) for one in (base, other))
        assert compare(base, mine, theirs, near_tie=NEAR / 2).judgement == "wrong"
        assert compare(base, mine, theirs, near_tie=NEAR * 2).judgement == "near_tie"


@both
def test_wrong_tokens_after_a_near_tie_are_seen(endpoint: Endpoint) -> None:
    compared = compare_all(Toy(lambda at: int(at in (4, 9))), endpoint)
    assert [[parting.judgement for parting in one.partings] for one in compared] == [["near_tie", "wrong"]] * 20


@both
@pytest.mark.parametrize("cut", [1, N_TOKENS])
def test_truncated_and_empty_answers_are_wrong(endpoint: Endpoint, cut: int) -> None:
    found = check_all(Toy(cut=cut), endpoint)
    assert found.wrong == 20
    assert not passes(found, "equivalent")[0]


@both
def test_an_answer_that_is_cut_off_after_a_near_tie_is_wrong(endpoint: Endpoint) -> None:
    assert check_all(Toy(lambda at: int(at == 4), cut=3), endpoint).wrong == 20


@both
def test_repeated_garbage_is_wrong(endpoint: Endpoint) -> None:
    class Stuck(Toy):
        def generate(self, ids: list[int], n: int) -> list[int]:
            return [ids[0]] * n

    found = check_all(Stuck(), endpoint)
    assert found.wrong == 20
    assert not passes(found, "equivalent")[0]


def test_right_tokens_written_wrongly_are_wrong() -> None:
    class Mojibake(Toy):
        def reply(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
            found = super().reply(path, body)
            return found | {"content": found["content"].replace("w", "v")} if path == "/completion" else found

    assert check_all(Mojibake(), "llamacpp").wrong == 20


@both
def test_invisible_answers_are_wrong_however_many_tokens_they_count(endpoint: Endpoint) -> None:
    class Invisible(Toy):
        def reply(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
            found = super().reply(path, body)
            if path == "/v1/completions":
                return found | {"choices": [{"text": ""}]}
            return found | {"content": ""}

    assert check_all(Invisible(), endpoint).wrong == 20


def test_the_older_form_of_log_probabilities_is_read_too() -> None:
    baseline = Toy(logprobs="dict")
    found = check_all(Toy(lambda at: int(at in (4, 9) or at == 7)), "openai", baseline)
    assert found.wrong == 20
    assert check_all(Toy(lambda at: int(at == 4)), "openai", baseline).near_ties == 20


@both
def test_without_log_probabilities_a_difference_cannot_be_judged(endpoint: Endpoint) -> None:
    found = check_all(Toy(lambda at: int(at == 4)), endpoint, Toy(logprobs=""))
    assert (found.near_ties, found.wrong, found.unjudged) == (0, 0, 20)
    assert not passes(found, "equivalent")[0]
    assert check_all(Toy(), endpoint, Toy(logprobs="")).same == 20


def test_the_candidate_is_asked_as_users_ask_it() -> None:
    toy = Toy()
    with serving(toy.reply, "openai") as server:
        ask(server, PROMPTS[:1], n_tokens=3)
    assert toy.requests == [{"prompt": PROMPTS[0], "temperature": 0, "ignore_eos": True, "max_tokens": 3}]


def test_answers_come_in_the_order_of_the_prompts() -> None:
    with serving(Toy().reply, "llamacpp") as server:
        one_by_one = ask(server, PROMPTS, n_tokens=4)
        assert ask(server, PROMPTS, n_tokens=4, concurrency=4) == one_by_one
    assert [one.prompt for one in one_by_one] == list(PROMPTS)


@both
def test_a_distribution_is_listed_likeliest_first(endpoint: Endpoint) -> None:
    with serving(Toy().reply, endpoint) as server:
        found = score(server, " w01", " w02 w03")
    assert [(one.piece, one.logprob) for one in found] == [(WORDS[n], value) for n, value in distribution([1, 2, 3])]


@pytest.mark.parametrize(
    ("reply", "status", "said"),
    [
        ({"error": "no such model"}, 404, "status 404: .*no such model"),
        ({"answer": 42}, 200, "something else than a completion"),
        ({"choices": []}, 200, "without choices"),
    ],
)
def test_a_server_that_does_not_answer_is_an_error(reply: object, status: int, said: str) -> None:
    def answer(_path: str, _body: dict[str, Any]) -> object:
        return reply

    with serving(answer, "openai", status) as server, pytest.raises(LoadError, match=said) as caught:
        ask(server, PROMPTS[:1], n_tokens=1)
    assert caught.value.hint


def test_a_server_that_is_gone_is_an_error() -> None:
    with serving(Toy().reply, "openai") as server:
        gone = server
    with pytest.raises(LoadError, match="gave no answer"):
        ask(gone, PROMPTS[:1], n_tokens=1)
