"""What is known, or said, of one decode step: model, hardware, measured times. ``None`` means unknown, never zero."""

from typing import Literal

import msgspec

Link = Literal["pcie", "nvlink"]
Confidence = Literal["measured", "derived", "modelled", "assumed"]
"""Measured: a number that was given or read. Derived: arithmetic on such. Modelled: a formula that can be wrong."""


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The model, as far as it decides how long a step takes.

    Attributes:
        name: For people.
        layers: Transformer layers.
        hidden: Width of the residual stream, in elements.
        activation_bytes: Bytes an element of an activation.
        weight_bits: Bits a weight takes in memory.
        allreduces_per_layer: All-reduces a layer does under tensor parallelism: one after attention, one after the MLP.
        always_params: Parameters that every step reads: all but the routed experts.
        expert_params: Parameters of one routed expert in one layer.
        moe_layers: Layers with routed experts.
        experts: Routed experts a layer.
        experts_per_token: Experts that a token is routed to.
    """

    name: str = ""
    layers: int | None = None
    hidden: int | None = None
    activation_bytes: float = 2.0
    weight_bits: float | None = None
    allreduces_per_layer: int = 2
    always_params: float | None = None
    expert_params: float = 0.0
    moe_layers: int = 0
    experts: int = 0
    experts_per_token: int = 0


class HardwareFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The machine.

    Attributes:
        gpus: Ranks of the tensor-parallel group.
        link: What connects them.
        link_gb_s: Bus bandwidth of a ring over that link, in GB/s.
        memory_gb_s: Memory bandwidth of one GPU, in GB/s.
        compute_tflops: Dense arithmetic of one GPU at the model's precision, in TFLOP/s.
    """

    gpus: int | None = None
    link: Link | None = None
    link_gb_s: float | None = None
    memory_gb_s: float | None = None
    compute_tflops: float | None = None


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The server.

    Attributes:
        engine: ``sglang``, ``vllm`` or another.
        version: Its version.
        nccl: Version of NCCL.
        flashinfer: Version of FlashInfer.
        cuda_graph: Whether decode steps run as CUDA graphs.
        transport: What NCCL's log says it uses, such as ``P2P`` or ``SHM``.
        protocol: What NCCL's log says ran for the step's message, such as ``RING LL``.
    """

    engine: str = ""
    version: str = ""
    nccl: str = ""
    flashinfer: str = ""
    cuda_graph: bool | None = None
    transport: str = ""
    protocol: str = ""


class BaselineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A decode step without speculation, one request at a time.

    Attributes:
        tok_s: Tokens per second of one request.
        step_ms: Length of a step, in milliseconds; by default 1000 / ``tok_s``.
        collective_ms: Time of it inside collectives, in milliseconds.
        idle_share: Share of the step in which no kernel runs, 0 to 1.
    """

    tok_s: float | None = None
    step_ms: float | None = None
    collective_ms: float | None = None
    idle_share: float | None = None


class SpeculationFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A round of speculative decoding: drafts, then one verify step.

    Attributes:
        tok_s: Tokens per second of one request with speculation.
        drafts: Tokens drafted a round; the verify step holds one more.
        verify_ms: Length of the verify step, in milliseconds.
        collective_ms: Time of it inside collectives, in milliseconds.
        allreduce_us: Time of one all-reduce of it, in microseconds.
        message_bytes: Size of one all-reduce, in bytes.
        draft_ms: Time of drafting a round, in milliseconds.
        overhead_ms: Everything else of a round, in milliseconds.
        tokens_per_verify: Tokens that a round yields, the bonus token included.
        acceptance: Per draft position, the probability that it is reached and accepted.
        idle_share: Share of the verify step in which no kernel runs, 0 to 1.
    """

    tok_s: float | None = None
    drafts: int | None = None
    verify_ms: float | None = None
    collective_ms: float | None = None
    allreduce_us: float | None = None
    message_bytes: float | None = None
    draft_ms: float | None = None
    overhead_ms: float | None = None
    tokens_per_verify: float | None = None
    acceptance: tuple[float, ...] = ()
    idle_share: float | None = None


class ClaimFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody says. It is checked against the rest, and nothing is computed from it.

    Attributes:
        allreduce_floor_us: "An all-reduce cannot take less here", in microseconds.
        idle_share: "The GPUs are idle for this share of the time", 0 to 1.
        tokens_per_verify: "A round yields so many tokens".
    """

    allreduce_floor_us: float | None = None
    idle_share: float | None = None
    tokens_per_verify: float | None = None


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known before the arithmetic starts."""

    model: ModelFacts = ModelFacts()
    hardware: HardwareFacts = HardwareFacts()
    server: ServerFacts = ServerFacts()
    baseline: BaselineFacts = BaselineFacts()
    speculation: SpeculationFacts = SpeculationFacts()
    claims: ClaimFacts = ClaimFacts()


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """A supposed number in place of a measured one; all else stays.

    Attributes:
        allreduce_us: One all-reduce of the verify step, in microseconds; without speculation it takes no longer.
        tokens_per_verify: Tokens that a round yields.
        draft_ms: Time of drafting a round, in milliseconds.
        compute_ms: Everything of a step but its collectives, in milliseconds.
        drafts: Tokens drafted a round.
    """

    allreduce_us: float | None = None
    tokens_per_verify: float | None = None
    draft_ms: float | None = None
    compute_ms: float | None = None
    drafts: int | None = None
