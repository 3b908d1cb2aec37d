"""Logs that llama.cpp b11549 wrote, shortened; the decisive line is read out of them."""

import pytest

from knowngood.engines.llamacpp import LlamaCpp
from knowngood.engines.llamacpp.flags import ALIASES
from knowngood.engines.openai import OpenAI
from knowngood.model.change import Env, Flag
from knowngood.reason.blame import blame
from knowngood.reason.diagnose import diagnose

START = """\
0.00.000.495 I srv          init: initializing ...
0.00.002.390 W srv          init: security: no API key is set and CORS allows all origins
0.00.004.367 I srv    load_model: loading model 'm.gguf'
"""
END = """\
0.00.300.050 I srv    operator(): operator(): cleaning up before exit...
0.00.300.375 E srv          init: exiting due to model loading error
main: exiting due to Failed to init server, please check the input params.
"""
FIT = "0.00.172.792 E common_fit_params: encountered an error while trying to fit params to free device memory: "
V_CACHE = f"""\
0.00.156.027 E llama_init_from_model: quantized V cache requires flash_attn to be enabled
{FIT}failed to create llama_context from model
0.00.300.011 E cmn  common_init_: failed to create context with model 'm.gguf'
"""
MISSING = f"""\
0.00.005.855 E gguf_init_from_file: failed to open GGUF file 'nope.gguf' (No such file or directory)
0.00.006.129 E llama_model_load: error loading model: llama_model_loader: failed to load model from nope.gguf
{FIT}failed to load model
"""
TRUNCATED = """\
0.00.023.958 E llama_model_load: error loading model: tensor 'blk.16.ffn_down.weight' data is not within the file \
bounds, model is corrupted or incomplete
0.00.023.969 E llama_model_load_from_file_impl: failed to load model
"""
PORT = """\
0.00.002.942 E srv         start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 18433
0.00.003.004 E srv          init: exiting due to HTTP server error
"""
FLAG = "error: invalid argument: --enable-turbo\n"
VALUE = """\
error while handling argument "-fa": error: unknown value for --flash-attn: 'maybe'

usage:
-fa,   --flash-attn [on|off|auto]       set Flash Attention use ('on', 'off', or 'auto', default: 'auto')
to show complete usage, run with -h
"""
LOOKUP = "0.02.741.729 E spec common_specu: failed to open static lookup cache: nope.bin"


@pytest.mark.parametrize(
    ("log", "cause", "line"),
    [
        (START + V_CACHE + END, "incompatible_features", 4),
        (START + MISSING + END, "model_files", 4),
        (START + TRUNCATED + END, "model_files", 4),
        (PORT, "network_port_or_interface", 1),
        (FLAG, "bad_flag_or_env", 1),
        (VALUE, "bad_flag_or_env", 1),
        (START + LOOKUP, "model_files", 4),
    ],
)
def test_the_first_cause_is_read_not_what_follows_from_it(log: str, cause: str, line: int) -> None:
    found = diagnose([(log).encode()], LlamaCpp().rules)
    assert (found.cause, found.line_number, found.abstained) == (cause, line, False)
    assert not found.hard


def test_the_pair_behind_the_v_cache_is_blamed_and_nothing_else() -> None:
    found = diagnose([(START + V_CACHE + END).encode()], LlamaCpp().rules)
    changes = (
        Env(name="OMP_NUM_THREADS", value="2"),
        Flag(flag="-ctv", value="q8_0"),
        Flag(flag="--flash-attn", value="off"),
        Flag(flag="-np", value="4"),
    )
    blamed = blame(found, changes, aliases=ALIASES)
    assert blamed.member == "flag -ctv q8_0 and flag --flash-attn off"
    # Alone each of them is fixable by the other; a set that has both is a dead end.
    assert blamed.hard
    assert not blame(found, changes[:2], aliases=ALIASES).hard


def test_of_two_models_the_one_in_the_line_is_blamed() -> None:
    found = diagnose([(MISSING).encode()], LlamaCpp().rules)
    changes = (Flag(flag="-m", value="m.gguf"), Flag(flag="-md", value="nope.gguf"))
    assert blame(found, changes).member == "flag -md nope.gguf"


def test_a_refused_flag_is_blamed() -> None:
    found = diagnose([FLAG.encode()], LlamaCpp().rules)
    assert blame(found, (Flag(flag="--enable"), Flag(flag="--enable-turbo"))).member == "flag --enable-turbo"


def test_a_python_server_is_read_too() -> None:
    log = (
        'Traceback (most recent call last):\n  File "s.py", line 1\nOSError: [Errno 98] Address already in use\nexit 1'
    )
    found = diagnose([(log).encode()], OpenAI().rules)
    assert (found.cause, found.line_number) == ("network_port_or_interface", 3)
