import re

import pytest

from knowngood.readers.kernels import KernelRule, categorise, kernel_rules


@pytest.mark.parametrize("rule", kernel_rules(), ids=lambda rule: rule.category)
def test_examples_belong_to_their_rule_and_to_none_before_it(rule: KernelRule) -> None:
    rules = kernel_rules()
    assert rule.examples
    for name in rule.examples:
        first = next(one for one in rules if re.search(one.pattern, name))
        assert first is rule, f"{name}: {first.category}"


@pytest.mark.parametrize(
    ("name", "category"),
    [
        # Public tables put these into 'reduce', 'norm' or 'misc'; they are collectives.
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "comm.allreduce"),
        ("void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport", "comm.allreduce"),
        ("rmsNormLamport", "comm.allreduce"),
        ("ncclDevKernel_Reduce_Sum_f32_RING_LL", "comm.other"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "comm.other"),
        # And these are not.
        ("void at::native::reduce_kernel<512, 1>", "glue"),
        ("void cublasLt::splitKreduce_kernel", "gemm"),
        ("aten::gather", "memops"),
        ("moe_sum_reduce_kernel", "moe.routing"),
        ("", "other"),
    ],
)
def test_traps(name: str, category: str) -> None:
    assert categorise(name) == category


def test_a_name_proves_no_protocol() -> None:
    assert not any(word in rule.category for rule in kernel_rules() for word in ("LL", "ring", "simple"))


def test_the_last_rule_takes_everything() -> None:
    assert kernel_rules()[-1].pattern == ""
