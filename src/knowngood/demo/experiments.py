"""The demo's hypotheses, one for each way in which a trial can end."""

from typing import Literal

import msgspec

Ending = Literal["keep", "regression", "not_better", "dead_end", "void"]


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """One hypothesis of the demo.

    Attributes:
        name: Stem of its file.
        shows: How its trial ends; ``not_better`` is a revert or an inconclusive verdict, ``dead_end`` a void
            launch that is remembered.
        text: The file; ``{{draft}}`` and ``{{threads}}`` are filled in.
    """

    name: str
    shows: Ending
    text: str


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        name="nothing",
        shows="not_better",
        text="""\
claim = "A variable that nobody reads changes nothing"
because = "the rule must not keep noise"

[[change]]
env = "KNOWNGOOD_DEMO"
value = "1"
""",
    ),
    Experiment(
        name="cores",
        shows="keep",
        text="""\
claim = "One thread a core makes use of the whole machine"
because = "a token of a small model is computed in parallel until memory is the limit"
predicts = {{ metric = "output_tok_s", change = ["+20%", "+90%"] }}

[[change]]
flag = "--threads"
value = "{cores}"
""",
    ),
    Experiment(
        name="threads",
        shows="regression",
        text="""\
claim = "More threads than cores make use of waiting times"
because = "that is how it is with web servers"
after = ["cores"]

[[change]]
flag = "--threads"
value = "{threads}"
""",
    ),
    Experiment(
        name="ngram",
        shows="keep",
        text="""\
claim = "Drafting from the prompt's own n-grams makes repeated text faster"
because = "the load repeats rows, so the next tokens mostly stand in the context already"
predicts = {{ metric = "output_tok_s", change = ["+30%", "+120%"] }}
after = ["cores"]

[[change]]
flag = "--spec-type"
value = "ngram-simple"
""",
    ),
    Experiment(
        name="slots",
        shows="keep",
        text="""\
claim = "Four slots serve four clients better than one"
because = "with one slot three of four clients wait in the queue"
predicts = {{ metric = "output_tok_s", change = ["+15%", "+100%"] }}
after = ["ngram"]

[[change]]
flag = "--parallel"
value = "4"
""",
    ),
    Experiment(
        name="load-mode",
        shows="not_better",
        text="""\
claim = "Reading the model instead of mapping it saves page faults"
because = "every page of a mapped file has to be looked up once"

[[change]]
flag = "--load-mode"
value = "none"
""",
    ),
    Experiment(
        name="lookup",
        shows="not_better",
        text="""\
claim = "N-gram statistics of rows like ours draft better than the context alone"
because = "the lookup cache knows the rows before the first one is written"
after = ["ngram"]

# The three belong together: the file does nothing without the flags, and the server does not start without the file.
[[change]]
file = "../lookup.bin"
from = "lookup.bin"

[[change]]
flag = "--spec-type"
value = "ngram-cache"

[[change]]
flag = "--lookup-cache-static"
value = "lookup.bin"
""",
    ),
    Experiment(
        name="small-v-cache",
        shows="dead_end",
        text="""\
claim = "A quantised V cache halves the cache's memory traffic"
because = "flash attention is of no use on a CPU, so it is switched off in the same go"

[[change]]
flag = "--cache-type-v"
value = "q8_0"

[[change]]
flag = "--flash-attn"
value = "off"
""",
    ),
    Experiment(
        name="draft-model",
        shows="void",
        text="""\
claim = "A draft model of two layers speeds up a model of thirty"
because = "drafts are cheap"

[[change]]
flag = "--spec-type"
value = "draft-simple"

[[change]]
flag = "--model-draft"
value = {draft}
""",
    ),
)
