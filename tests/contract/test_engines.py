import pytest

from knowngood.engines.command import Command
from knowngood.engines.llamacpp import LlamaCpp
from knowngood.engines.openai import OpenAI
from knowngood.engines.sglang import SGLang
from knowngood.engines.trtllm import TRTLLM
from knowngood.engines.vllm import VLLM
from knowngood.ports import Engine
from knowngood.testing.engine_suite import EngineSuite


class TestLlamaCpp(EngineSuite):
    @pytest.fixture
    def engine(self) -> Engine:
        return LlamaCpp()


class TestOpenAI(EngineSuite):
    @pytest.fixture
    def engine(self) -> Engine:
        return OpenAI()


class TestCommand(EngineSuite):
    @pytest.fixture
    def engine(self) -> Engine:
        return Command()


class TestVLLM(EngineSuite):
    @pytest.fixture
    def engine(self) -> Engine:
        return VLLM()


class TestSGLang(EngineSuite):
    @pytest.fixture
    def engine(self) -> Engine:
        return SGLang()


class TestTRTLLM(EngineSuite):
    @pytest.fixture
    def engine(self) -> Engine:
        return TRTLLM()
