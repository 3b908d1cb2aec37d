"""Generated prompts and drawn lengths: a pure function of seed and index. Standard library only.

A prompt is a row of common English words, drawn independently, so no two prompts share a prefix by design. Each word is
one token in a byte-level BPE vocabulary of English (measured in ``docs/explanation/load.md``); the server's own count
is what gets recorded.
"""

import random
from typing import NamedTuple

WORDS = tuple(  # a list of 269 quoted strings would hide the words
    """
    the of and to in is that for it was on as with be by at from are this have or not but had his they which one you
    were all there would their we him been has when who will no more if out so said what up its about into than them
    can only other new some could time these two may then do first any my now such like our over man me even most made
    after also did many before must through back years where much your way well down should because each just those
    people how too little state good very make world still see own work long here get both between life being under
    never day same another know while last might us great old year off come since against go came right used take three
    house use again place around however home small found thought went say part once general high upon school every
    does got united left number course war until always away something fact water though less public put think almost
    hand enough far took head yet better set told nothing night end why called find going look asked later point knew
    next city business give group toward young days let room side social given present several order second possible
    rather per face among form important often things looked early white case large big need four within felt along
    children saw best church ever least power light thing family want mind country area others done turned open god
    service kind certain began different door thus help sense means whole matter
    """.split()  # noqa: SIM905
)


class Draw(NamedTuple):
    """A normal distribution, rounded to whole tokens and clamped to its bounds.

    Attributes:
        mean: Mean, in tokens.
        sd: Standard deviation, in tokens.
        low: Smallest length.
        high: Largest length; 0 means no limit.
    """

    mean: float
    sd: float
    low: int
    high: int

    def length(self, rng: random.Random) -> int:
        """Draw one length, in tokens; at least 1."""
        drawn = max(1, self.low, round(rng.gauss(self.mean, self.sd)))
        return min(drawn, self.high) if self.high else drawn


class Ask(NamedTuple):
    """What one request asks for: its prompt, and how many tokens it wants."""

    prompt: str
    tokens: int


def ask(index: int, *, isl: Draw, osl: Draw, seed: int, prompts: tuple[str, ...] = ()) -> Ask:
    """Write request number ``index``; warm-up requests count down from -1, so they never share a generated prompt.

    Args:
        index: Number of the request; its words and lengths depend on nothing but this and ``seed``.
        isl: Input lengths, used only if there are no ``prompts``.
        osl: Output lengths.
        seed: Equal seeds give equal requests on every platform.
        prompts: Ready-made prompts, taken in turn.
    """
    rng = random.Random(f"ask/{seed}/{index}")  # noqa: S311 - reproducible, not secret
    tokens = osl.length(rng)
    prompt = prompts[index % len(prompts)] if prompts else " ".join(rng.choices(WORDS, k=isl.length(rng)))
    return Ask(prompt, tokens)
