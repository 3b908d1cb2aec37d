"""Asks servers for greedy answers, and asks the baseline what it thinks of the candidate's.

Two dialects: ``llamacpp`` speaks ``/completion`` and ``/tokenize`` in token ids, so that nothing is lost by tokenising
a text again; ``openai`` speaks ``/v1/completions`` (vLLM, SGLang, llama.cpp and others) and works on text.
"""

import http.client
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, TypeVar, assert_never
from urllib.parse import urlsplit

import msgspec

from knowngood.errors import LoadError
from knowngood.reason.answers import (
    NEAR_TIE_NATS,
    Answer,
    Comparison,
    Parting,
    Token,
    TopK,
    first_difference,
    judge_difference,
    measure_gap,
)

Endpoint = Literal["llamacpp", "openai"]

# vLLM refuses more than 20 unless started otherwise.
LIKELIEST = 20
# A text may have been tokenised otherwise than the baseline's a few tokens before it shows.
LOOK_BACK = 3
HTTP_OK = 200
SHOWN_BYTES = 300

_Reply = TypeVar("_Reply")


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A server that answers.

    Attributes:
        url: Root URL, without a final slash.
        endpoint: The dialect it is asked in.
        model: Name sent with each request; empty sends none, which servers of one model accept.
        timeout_s: Longest wait for one answer.
    """

    url: str
    endpoint: Endpoint = "openai"
    model: str = ""
    timeout_s: float = 120.0


def ask(server: Server, prompts: Sequence[str], *, n_tokens: int, concurrency: int = 1) -> tuple[Answer, ...]:
    """Let a server answer greedily, going on past its end-of-text token.

    Log-probabilities are not asked for: they switch off fast paths, and the paths that users get are to be checked.

    Args:
        server: Whom to ask.
        prompts: What to ask.
        n_tokens: Length of each answer, in tokens.
        concurrency: Questions in flight; more than 1 lets the server batch them, which may change texts at near ties.

    Returns:
        One answer a prompt, in order.

    Raises:
        LoadError: The server cannot be reached, refuses, or answers something else than a completion.
    """

    def answer(prompt: str) -> Answer:
        return _answer(server, prompt, prompt, n_tokens=n_tokens, k=0)

    with ThreadPoolExecutor(max_workers=concurrency) as pool:
        return tuple(pool.map(answer, prompts))


def score(server: Server, prompt: str, prefix: str | Sequence[int], *, k: int = LIKELIEST) -> TopK:
    """Ask a server what comes next after a prompt and the beginning of an answer (teacher forcing).

    Args:
        server: Whom to ask.
        prompt: The prompt.
        prefix: Beginning of the answer: token ids (``llamacpp`` only) or text.
        k: How many of the likeliest tokens to list.

    Returns:
        Next-token distribution, likeliest first; empty if the server gives no log-probabilities.

    Raises:
        LoadError: The server cannot be reached, refuses, or answers something else than a completion.
    """
    return _complete(server, _input(server, prompt, prefix), n_tokens=1, k=k).first


def compare(server: Server, mine: Answer, theirs: Answer, *, near_tie: float = NEAR_TIE_NATS) -> Comparison:
    """Hold one answer of the candidate against the baseline's.

    Where they part at a near tie, the baseline is asked to go on from the candidate's text, so that every token of the
    candidate is compared, not only those before the first difference.

    Args:
        server: The baseline, running.
        mine: What the baseline said.
        theirs: What the candidate said to the same prompt.
        near_tie: Largest gap that rounding explains, in nats.

    Returns:
        All partings up to the first that is no near tie.

    Raises:
        LoadError: The baseline cannot be reached, refuses, or answers something else than a completion.
    """
    if mine.count == mine.asked and theirs.count not in (None, mine.count):
        said, wanted = f"{theirs.count} tokens", f"{mine.count} tokens"
        found = [Parting(at=theirs.count or 0, baseline=wanted, candidate=said, judgement="wrong")]
    elif mine.text == theirs.text:
        found = []
    else:
        found = _partings(server, mine, theirs, near_tie) or [_unexplained(mine, theirs)]
    return Comparison(prompt=mine.prompt, partings=tuple(found))


def _partings(server: Server, mine: Answer, theirs: Answer, near_tie: float) -> list[Parting]:
    # The text is what users get. Token ids stand for it only if the baseline reads the same text in them.
    by_ids = mine.ids and theirs.ids and _spell(server, theirs.ids) == theirs.text
    reader = _Tokens(server, theirs, near_tie) if by_ids else _Text(server, theirs, near_tie)
    partings: list[Parting] = []
    expected, done = mine, 0
    while (found := reader.part(expected, done)) is not None:
        parting, done = found
        partings.append(parting)
        if parting.judgement != "near_tie" or reader.is_over(done):
            break
        expected = reader.go_on(done)
    return partings


def _unexplained(mine: Answer, theirs: Answer) -> Parting:
    """Two texts that differ although the baseline, asked again, did not part from the candidate's."""
    at = first_difference(mine.text, theirs.text) or 0
    ends = at == len(theirs.text)
    return Parting(
        at=at,
        baseline=mine.text[at:],
        candidate=theirs.text[at:],
        judgement="wrong" if ends else "near_tie",
    )


class _Tokens:
    """Compares by token ids: exact."""

    def __init__(self, server: Server, theirs: Answer, near_tie: float) -> None:
        self._server = server
        self._theirs = theirs
        self._near_tie = near_tie

    def is_over(self, done: int) -> bool:
        return done >= len(self._theirs.ids)

    def part(self, expected: Answer, done: int) -> tuple[Parting, int] | None:
        rest = self._theirs.ids[done:]
        step = first_difference(expected.ids, rest)
        if step is None:
            return None
        at = done + step
        likely = score(self._server, self._theirs.prompt, self._theirs.ids[:at])
        ours, other = _at(expected.ids, step), _at(rest, step)
        token = next((one for one in likely if one.id == other), None)
        parting = Parting(
            at=at,
            baseline=next((one.piece for one in likely if one.id == ours), f"token {ours}"),
            candidate=token.piece if token else f"token {other}",
            judgement=judge_difference(token, likely, near_tie=self._near_tie),
            gap=measure_gap(token, likely),
        )
        return parting, at + 1

    def go_on(self, done: int) -> Answer:
        theirs = self._theirs
        source = _input(self._server, theirs.prompt, theirs.ids[:done])
        return _answer(self._server, theirs.prompt, source, n_tokens=len(theirs.ids) - done, k=0)


class _Text:
    """Compares by text: where the candidate's tokens are not known, the likeliest reading of its text counts."""

    def __init__(self, server: Server, theirs: Answer, near_tie: float) -> None:
        self._server = server
        self._theirs = theirs
        self._near_tie = near_tie

    def is_over(self, done: int) -> bool:
        return done >= len(self._theirs.text)

    def part(self, expected: Answer, done: int) -> tuple[Parting, int] | None:
        text = self._theirs.text
        if not expected.pieces:
            expected = self.go_on(done)
        while expected.text and text.startswith(expected.text, done):
            done += len(expected.text)
            if self.is_over(done):
                return None
            expected = self.go_on(done)
        step = first_difference(expected.text, text[done:])
        if step is None:
            return None
        starts = _tokens_before(expected, step)
        if done + step == len(text) and (not starts or starts[0][0] == step):
            return None
        if not starts:
            ours, other = expected.text[step:], text[done + step :]
            return Parting(at=done + step, baseline=ours, candidate=other, judgement="unjudged"), done + step
        options = [self._judge(done + start, piece) for start, piece in starts]
        return next((one for one in options if one[0].judgement == "near_tie"), options[0])

    def _judge(self, at: int, ours: str) -> tuple[Parting, int]:
        text = self._theirs.text
        likely = score(self._server, self._theirs.prompt, text[:at])
        token = next((one for one in likely if one.piece not in ("", ours) and text.startswith(one.piece, at)), None)
        other = token.piece if token else text[at : at + max(len(ours), 1)]
        parting = Parting(
            at=at,
            baseline=ours,
            candidate=other,
            judgement=judge_difference(token, likely, near_tie=self._near_tie),
            gap=measure_gap(token, likely),
        )
        return parting, at + len(other)

    def go_on(self, done: int) -> Answer:
        theirs = self._theirs
        source = _input(self._server, theirs.prompt, theirs.text[:done])
        return _answer(self._server, theirs.prompt, source, n_tokens=theirs.asked, k=1)


def _at(ids: Sequence[int], step: int) -> int | None:
    return ids[step] if step < len(ids) else None


def _tokens_before(expected: Answer, step: int) -> list[tuple[int, str]]:
    """Where the baseline's tokens begin, at or before a differing character: the nearest first, a few only.

    The candidate may have left the baseline's tokens before it shows: one line feed and two look alike at first. Empty
    if the tokens' texts do not make up the answer so far (half a character each) or are not known.
    """
    found: list[tuple[int, str]] = []
    start = 0
    for piece in expected.pieces:
        if start > step or not expected.text.startswith(piece, start):
            break
        found.append((start, piece))
        start += len(piece)
    return found[: -LOOK_BACK - 1 : -1] if start > step else []


class _Alternative(msgspec.Struct):
    token: str
    logprob: float
    id: int | None = None


class _Step(msgspec.Struct):
    token: str
    top_logprobs: list[_Alternative] = []


class _Native(msgspec.Struct):
    """Answer of llama.cpp's ``/completion``."""

    content: str
    tokens: list[int] = []
    tokens_predicted: int | None = None
    completion_probabilities: list[_Step] = []


class _Logprobs(msgspec.Struct):
    """Either OpenAI's older form (``tokens``, ``top_logprobs``: vLLM, SGLang) or the newer (``content``: llama.cpp)."""

    content: list[_Step] | None = None
    tokens: list[str] = []
    top_logprobs: list[dict[str, float] | None] | None = None


class _Choice(msgspec.Struct):
    text: str
    logprobs: _Logprobs | None = None


class _Usage(msgspec.Struct):
    completion_tokens: int | None = None


class _OpenAI(msgspec.Struct):
    """Answer of ``/v1/completions``."""

    choices: list[_Choice]
    usage: _Usage | None = None


class _Tokenized(msgspec.Struct):
    tokens: list[int]


class _Spelled(msgspec.Struct):
    content: str


class _Completion(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    ids: tuple[int, ...] = ()
    pieces: tuple[str, ...] = ()
    count: int | None = None
    first: TopK = ()


def _answer(server: Server, prompt: str, source: str | Sequence[int], *, n_tokens: int, k: int) -> Answer:
    found = _complete(server, source, n_tokens=n_tokens, k=k)
    return Answer(prompt=prompt, text=found.text, asked=n_tokens, ids=found.ids, pieces=found.pieces, count=found.count)


def _input(server: Server, prompt: str, prefix: str | Sequence[int]) -> str | list[int]:
    """A prompt and the beginning of an answer as one input, in token ids if the prefix is."""
    if isinstance(prefix, str):
        return prompt + prefix
    body = {"content": prompt, "add_special": True, "parse_special": True}
    return [*_post(server, "/tokenize", body, _Tokenized).tokens, *prefix]


def _spell(server: Server, ids: Sequence[int]) -> str:
    return _post(server, "/detokenize", {"tokens": ids}, _Spelled).content


def _complete(server: Server, source: str | Sequence[int], *, n_tokens: int, k: int) -> _Completion:
    body: dict[str, object] = {"prompt": source, "temperature": 0, "ignore_eos": True}
    if server.model:
        body["model"] = server.model
    match server.endpoint:
        case "llamacpp":
            # A cached prompt is computed in other batches than a fresh one, which may change a near tie.
            body |= {"n_predict": n_tokens, "n_probs": k, "return_tokens": True, "cache_prompt": False}
            return _read_native(_post(server, "/completion", body, _Native))
        case "openai":
            body |= {"max_tokens": n_tokens} | ({"logprobs": k} if k else {})
            return _read_openai(server, _post(server, "/v1/completions", body, _OpenAI))
        case _:
            assert_never(server.endpoint)


def _read_native(reply: _Native) -> _Completion:
    steps = reply.completion_probabilities
    return _Completion(
        text=reply.content,
        ids=tuple(reply.tokens),
        pieces=tuple(one.token for one in steps),
        count=reply.tokens_predicted,
        first=_top(steps),
    )


def _read_openai(server: Server, reply: _OpenAI) -> _Completion:
    if not reply.choices:
        raise LoadError(f"{server.url} answered a completion without choices", hint="see the server's log")
    choice, logprobs = reply.choices[0], reply.choices[0].logprobs or _Logprobs()
    if logprobs.content is None:
        listed = (logprobs.top_logprobs or [None])[0] or {}
        steps = [_Step(token=piece) for piece in logprobs.tokens]
        likely = [_Alternative(token=piece, logprob=value) for piece, value in listed.items()]
        first = _top([_Step(token="", top_logprobs=likely)])
    else:
        steps = logprobs.content
        first = _top(steps)
    return _Completion(
        text=choice.text,
        pieces=tuple(one.token for one in steps),
        count=reply.usage.completion_tokens if reply.usage else None,
        first=first,
    )


def _top(steps: Sequence[_Step]) -> TopK:
    likely = steps[0].top_logprobs if steps else []
    tokens = (Token(piece=one.token, logprob=one.logprob, id=one.id) for one in likely)
    return tuple(sorted(tokens, key=lambda one: -one.logprob))


def _post(server: Server, path: str, body: Mapping[str, object], reply: type[_Reply]) -> _Reply:
    """Send one request and read its answer, mapping whatever goes wrong to a load error."""
    parts = urlsplit(server.url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=server.timeout_s)
    where = f"{server.url}{path}"
    try:
        connection.request(
            "POST", parts.path.rstrip("/") + path, msgspec.json.encode(body), {"Content-Type": "application/json"}
        )
        response = connection.getresponse()
        content = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise LoadError(
            f"{where} gave no answer: {error or type(error).__name__}", hint="is the server still up? see its log"
        ) from error
    finally:
        connection.close()
    if response.status != HTTP_OK:
        said = content[:SHOWN_BYTES].decode(errors="replace")
        raise LoadError(
            f"{where} refused a completion with status {response.status}: {said}",
            hint="is this the endpoint and the model that the server serves?",
            status=response.status,
        )
    try:
        return msgspec.json.decode(content, type=reply)
    except msgspec.MsgspecError as error:
        raise LoadError(
            f"{where} answered something else than a completion: {error}", hint="is this the server's endpoint?"
        ) from error
