"""A model's ``config.json`` (Hugging Face) becomes what decides the length of a step."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from knowngood.config.values import LARGEST_TEXT, read_file
from knowngood.errors import UsageError
from knowngood.model.steptime import ModelFacts

BITS = {"float32": 32.0, "float16": 16.0, "bfloat16": 16.0, "float8_e4m3fn": 8.0}
QUANTISED = {"fp8": 8.0, "awq": 4.0, "gptq": 4.0, "mxfp4": 4.25, "modelopt_fp4": 4.5}
EXPERT_COUNTS = ("n_routed_experts", "num_local_experts", "num_experts")


def load_shape(path: Path) -> ModelFacts:
    """Read a ``config.json``, or that of a model's folder.

    Raises:
        UsageError: It cannot be read, or is none of a language model.
    """
    file = path / "config.json" if path.is_dir() else path
    try:
        doc = json.loads(read_file(file, hint="name a model's config.json", most=LARGEST_TEXT))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is no JSON: {error}", hint="name a model's config.json") from error
    if not isinstance(doc, dict):
        raise UsageError(f"{file} is no model's config", hint="it must hold an object")
    return shape(cast("dict[str, Any]", doc), where=str(file))


def shape(doc: Mapping[str, Any], *, where: str) -> ModelFacts:
    """Count layers and parameters.

    Args:
        doc: The config; that of a multimodal model holds the language model's as ``text_config``.
        where: For messages.

    Raises:
        UsageError: Number of layers or width are missing.
    """
    text = doc.get("text_config", doc)
    layers, hidden = number(text, "num_hidden_layers"), number(text, "hidden_size")
    if not layers or not hidden:
        raise UsageError(f"{where} names no num_hidden_layers or hidden_size", hint="is it a language model's config?")
    experts = next((found for key in EXPERT_COUNTS if (found := number(text, key))), 0)
    width = number(text, "moe_intermediate_size") or number(text, "intermediate_size")
    moe_layers = moe_layer_count(text, layers) if experts else 0
    dense = (layers - moe_layers) * 3 * hidden * number(text, "intermediate_size")
    shared = moe_layers * 3 * hidden * (number(text, "n_shared_experts") * width + shared_width(text))
    router = moe_layers * hidden * experts
    # The input embedding is a look-up of one row a token; the output one is multiplied with, whether it is tied or not.
    head = number(text, "vocab_size") * hidden
    dtype = str(
        text.get("torch_dtype") or text.get("dtype") or doc.get("torch_dtype") or doc.get("dtype") or "bfloat16"
    )
    return ModelFacts(
        name=str(doc.get("_name_or_path") or next(iter(doc.get("architectures") or ()), "")),
        layers=layers,
        hidden=hidden,
        activation_bytes=min(BITS.get(dtype, 16.0), 32.0) / 8,
        weight_bits=weight_bits(doc, text, dtype),
        always_params=float(layers * attention_params(text, hidden) + dense + shared + router + head),
        expert_params=float(3 * hidden * width) if experts else 0.0,
        moe_layers=moe_layers,
        experts=experts,
        experts_per_token=number(text, "num_experts_per_tok") if experts else 0,
    )


def attention_params(text: Mapping[str, Any], hidden: int) -> int:
    """Parameters of one layer's attention: multi-head latent attention if it has a latent rank, else grouped queries.

    Source: DeepSeek-V2 (arXiv 2405.04434), section 2.1, and the configs' own names.
    """
    heads = number(text, "num_attention_heads")
    latent = number(text, "kv_lora_rank")
    if latent:
        rope, nope, value = (number(text, key) for key in ("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"))
        rank = number(text, "q_lora_rank")
        query = rank * (hidden + heads * (rope + nope)) if rank else hidden * heads * (rope + nope)
        return query + hidden * (latent + rope) + latent * heads * (nope + value) + heads * value * hidden
    head_dim = number(text, "head_dim") or (hidden // heads if heads else 0)
    groups = number(text, "num_key_value_heads") or heads
    return hidden * head_dim * (2 * heads + 2 * groups)


def moe_layer_count(text: Mapping[str, Any], layers: int) -> int:
    """Layers with routed experts: all but the first few, each n-th, or all but those that are listed."""
    first, every = (
        number(text, "first_k_dense_replace"),
        number(text, "decoder_sparse_step") or number(text, "moe_layer_freq"),
    )
    listed = text.get("mlp_only_layers") or ()
    return len(
        [layer for layer in range(first, layers) if layer not in listed and (not every or (layer + 1) % every == 0)]
    )


def shared_width(text: Mapping[str, Any]) -> int:
    """Width of a shared expert that is named by its width, not by number."""
    return number(text, "shared_expert_intermediate_size")


def weight_bits(doc: Mapping[str, Any], text: Mapping[str, Any], dtype: str) -> float:
    """Bits a weight: of the quantisation if there is one."""
    quant = doc.get("quantization_config") or text.get("quantization_config")
    if isinstance(quant, Mapping):
        table = cast("Mapping[str, Any]", quant)
        bits = table.get("bits") or group_bits(table)
        if isinstance(bits, int | float):
            return float(bits)
        return QUANTISED.get(str(table.get("quant_method") or table.get("fmt")), BITS.get(dtype, 16.0))
    return BITS.get(dtype, 16.0)


def group_bits(quant: Mapping[str, Any]) -> object:
    """Bits of the first group of weights, as compressed-tensors writes them."""
    groups = quant.get("config_groups")
    if not isinstance(groups, Mapping):
        return None
    first = next(iter(cast("Mapping[str, Any]", groups).values()), None)
    weights = cast("Mapping[str, Any]", first).get("weights") if isinstance(first, Mapping) else None
    return cast("Mapping[str, Any]", weights).get("num_bits") if isinstance(weights, Mapping) else None


def number(table: Mapping[str, Any], key: str) -> int:
    """A whole number of a config; 0 if it is not there."""
    value = table.get(key)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0
