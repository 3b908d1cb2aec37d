"""llama.cpp's own server out of the ``xllamacpp`` wheel, started with llama-server's own flags.

The wheel is a Python library: it has the server and llama.cpp's argument parser, but no program. This module is that
program: ``python -m knowngood.engines.llama_server -m model.gguf --port 8080``. Flags, environment variables
(``LLAMA_ARG_*``), defaults and refusals are llama.cpp's, because its parser reads them.

The parser is no part of the wheel's Python API. It is called by its C++ symbol on the ``common_params`` that a
``CommonParams`` object holds; before that, the layout is checked through the Python API, so that another build of the
wheel is refused instead of corrupted.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from types import FrameType
from typing import Any, NoReturn, Protocol, cast

NATIVE = "xllamacpp.xllamacpp"
"""The extension module; it has no type stubs."""

PARSER = "_Z19common_params_parseiPPcR13common_params13llama_examplePFviS0_E"
"""``common_params_parse(int, char **, common_params &, llama_example, void (*)(int, char **))``."""

LLAMA_EXAMPLE_SERVER = 12
"""Value of ``enum llama_example`` that selects llama-server's flags, in the builds that ``HEADER`` fits."""

HEADER = 16
"""Bytes of a Python object's header on 64-bit builds; the ``common_params`` stands right behind it."""

PROBE = (1234567, 7654321)
"""Values of ``n_predict`` and ``n_ctx``, the first two fields of ``common_params``, for the check of the layout."""

DEFAULT_PORT = 8080
AUTO_SLOTS = 4
"""llama-server's own choices where the command line leaves them open (llama.cpp, ``tools/server``)."""


class Params(Protocol):
    """The fields of ``xllamacpp.CommonParams`` that are read or written here."""

    n_predict: int
    n_ctx: int
    n_parallel: int
    kv_unified: bool
    port: int


def parse(argv: Sequence[str]) -> Params | None:
    """Let llama.cpp read a command line.

    Args:
        argv: Arguments without the program.

    Returns:
        The parameters, or None if llama.cpp refused them; it has said why on stderr.

    Raises:
        SystemExit: This build of xllamacpp is laid out in another way, or the flags asked for a text (``--help``).
        ImportError: There is no xllamacpp.
    """
    native: Any = import_module(NATIVE)
    parser = getattr(ctypes.CDLL(native.__file__), PARSER, None)
    params: Any = native.CommonParams()
    unset = (params.n_predict, params.n_ctx)
    params.n_predict, params.n_ctx = PROBE
    if parser is None or tuple((ctypes.c_int32 * 2).from_address(id(params) + HEADER)) != PROBE:
        sys.exit("error: this build of xllamacpp is not known; install xllamacpp==2026.10.11549")
    params.n_predict, params.n_ctx = unset

    words = [b"llama-server", *(os.fsencode(word) for word in argv)]
    parser.restype = ctypes.c_bool
    parser.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    vector = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    if not parser(len(words), vector, id(params) + HEADER, LLAMA_EXAMPLE_SERVER, None):
        return None
    if params.n_parallel < 0:
        params.n_parallel, params.kv_unified = AUTO_SLOTS, True
    params.port = params.port or DEFAULT_PORT
    return cast("Params", params)


def end(number: int, frame: FrameType | None) -> NoReturn:
    """End at once: the server's threads may be deep in a batch, and nothing of theirs outlives the process."""
    del number, frame
    os._exit(0)


def main() -> int:
    """Serve until SIGTERM or SIGINT; 1 if the server does not come up."""
    # A signal while the model loads ends the process at once: there is nothing to wind up yet.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # On a failed assertion ggml would attach a debugger and print the stacks of all threads over the decisive line.
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")
    params = parse(sys.argv[1:])
    if params is None:
        return 1
    native: Any = import_module(NATIVE)
    # llama.cpp inside the wheel does not know its own build number.
    sys.stderr.write(f"build: xllamacpp-{version('xllamacpp')}\n")
    try:
        server = native.Server(params)
    except Exception as failure:  # noqa: BLE001 - whatever the C++ side throws ends a launch the same way
        sys.stderr.write(f"main: exiting due to {failure}\n")
        return 1
    sys.stderr.write(f"main: server is listening on {server.listening_address}\n")
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, end)
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
