"""What a step costs at least: every weight that it needs is read once, every product is computed once."""

import math

from knowngood.model.steptime import HardwareFacts, ModelFacts

BITS = 8


def distinct_experts(model: ModelFacts, tokens: float) -> float:
    """Routed experts of one layer that a step with ``tokens`` tokens touches, on average.

    Uniform, independent routing: E (1 - (1 - k/E)^m), the expected number of distinct boxes that hold a ball. Real
    routers repeat themselves from token to token, so this is the upper end.
    """
    if not model.experts:
        return 0.0
    missed = math.pow(1 - model.experts_per_token / model.experts, tokens)
    return model.experts * (1 - missed)


def params_read(model: ModelFacts, tokens: float) -> float | None:
    """Parameters that a step reads; None if the model's size is unknown."""
    if model.always_params is None:
        return None
    return model.always_params + model.moe_layers * model.expert_params * distinct_experts(model, tokens)


def params_used(model: ModelFacts) -> float | None:
    """Parameters that one token is multiplied with; None if the model's size is unknown."""
    if model.always_params is None:
        return None
    return model.always_params + model.moe_layers * model.expert_params * model.experts_per_token


def memory_floor_ms(model: ModelFacts, hardware: HardwareFacts, tokens: float) -> float | None:
    """Time to read the weights once, spread over all GPUs, in milliseconds; the KV cache comes on top.

    Source: the roofline model (Williams et al. 2009), memory side: bytes by bandwidth.
    """
    params = params_read(model, tokens)
    if params is None or model.weight_bits is None or hardware.memory_gb_s is None or hardware.gpus is None:
        return None
    return params * model.weight_bits / BITS / (hardware.gpus * hardware.memory_gb_s * 1e9) * 1e3


def compute_floor_ms(model: ModelFacts, hardware: HardwareFacts, tokens: float) -> float | None:
    """Time to multiply, spread over all GPUs, in milliseconds: two operations a parameter and token.

    Source: the same, compute side; attention's own products are left out, which are small at batch 1.
    """
    params = params_used(model)
    if params is None or hardware.compute_tflops is None or hardware.gpus is None:
        return None
    return 2 * params * tokens / (hardware.gpus * hardware.compute_tflops * 1e12) * 1e3


def floor_ms(model: ModelFacts, hardware: HardwareFacts, tokens: float) -> float | None:
    """The larger of both floors, in milliseconds; None if neither is known."""
    known = [
        value
        for value in (memory_floor_ms(model, hardware, tokens), compute_floor_ms(model, hardware, tokens))
        if value is not None
    ]
    return max(known, default=None)


def speedup_bound(whole: float, part: float, *, factor: float = float("inf")) -> float:
    """How much faster the whole gets at most when a part of it gets ``factor`` times faster.

    Args:
        whole: Length of the whole.
        part: Length of the part, in the same unit; it must lie on the critical path, or less is gained.
        factor: How much faster the part gets; infinity removes it.

    Returns:
        Ratio, at least 1; infinity if the part is all there is.

    Source: Amdahl 1967.
    """
    left = whole - part * (1 - 1 / factor)
    return whole / left if left > 0 else float("inf")
