"""A facts file, the command line over it, and models' own configs."""

import json
from pathlib import Path
from typing import Any

import pytest

from knowngood.config.facts import load_facts, read_what_if
from knowngood.config.model_shape import load_shape, shape
from knowngood.errors import UsageError
from knowngood.model.steptime import ModelFacts, WhatIf
from knowngood.reason.steptime.floors import params_used

KIMI: dict[str, Any] = {
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 384,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 163840,
    "torch_dtype": "bfloat16",
}
LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}
QWEN_MOE: dict[str, Any] = {
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "vocab_size": 151936,
}


def total(model: ModelFacts, vocab: int) -> float:
    """All parameters, the input embedding included."""
    assert model.always_params is not None
    assert model.hidden is not None
    return model.always_params + model.moe_layers * model.experts * model.expert_params + vocab * model.hidden


@pytest.mark.parametrize(
    ("doc", "parameters", "active"),
    [(KIMI, 1.03e12, 32e9), (LLAMA, 8.03e9, 7.5e9), (QWEN_MOE, 30.5e9, 3.0e9)],
    ids=["Kimi-K2", "Llama-3.1-8B", "Qwen3-30B-A3B"],
)
def test_parameters_are_those_that_the_makers_name(doc: dict[str, Any], parameters: float, active: float) -> None:
    model = shape(doc, where="x")
    assert total(model, doc["vocab_size"]) == pytest.approx(parameters, rel=0.01)
    assert params_used(model) == pytest.approx(active, rel=0.04)


@pytest.mark.parametrize(
    ("quant", "bits"),
    [
        (None, 16),
        ({"quant_method": "fp8"}, 8),
        ({"quant_method": "gptq", "bits": 4}, 4),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 4}}}}, 4),
        ({"quant_method": "something new"}, 16),
    ],
)
def test_bits_a_weight(quant: dict[str, Any] | None, bits: float) -> None:
    assert shape({**LLAMA, **({"quantization_config": quant} if quant else {})}, where="x").weight_bits == bits


def test_the_language_model_of_a_multimodal_one() -> None:
    model = shape({"architectures": ["KimiK25"], "text_config": KIMI}, where="x")
    assert (model.layers, model.hidden, model.experts, model.name) == (61, 7168, 384, "KimiK25")


def test_sparse_layers_between_dense_ones() -> None:
    assert shape({**QWEN_MOE, "decoder_sparse_step": 2, "mlp_only_layers": [1, 2]}, where="x").moe_layers == 23


def test_a_facts_file_names_a_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(KIMI))
    file = tmp_path / "facts.toml"
    file.write_text('[model]\nconfig = "config.json"\nweight_bits = 4\n[baseline]\ntok_s = 82\n')
    facts = load_facts(file, ["baseline.tok_s=90", "server.engine=sglang", "speculation.acceptance=[0.6, 0.4]"])
    assert (facts.model.layers, facts.model.weight_bits, facts.model.experts) == (61, 4.0, 384)
    assert (facts.baseline.tok_s, facts.server.engine, facts.speculation.acceptance) == (90, "sglang", (0.6, 0.4))
    assert load_shape(tmp_path).layers == 61


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[basline]\ntok_s = 1", "unknown key 'basline'"),
        ("[baseline]\ntoks = 1", "unknown key 'toks'"),
        ("[baseline]\ntok_s = 0", "tok_s is 0"),
        ("[baseline]\ntok_s = inf", "tok_s is inf"),
        ("[baseline]\ntok_s = nan", "tok_s is nan"),
        ("[speculation]\nverify_ms = -3", "verify_ms is -3"),
        ("[claims]\nidle_share = 70", "idle_share is 70"),
        ('[hardware]\nlink = "isa"', "Invalid enum value 'isa'"),
        ("[speculation]\nacceptance = 0.6", "Expected `array`"),
        ("[model]\nexperts = 4\nexperts_per_token = 8", "more experts than there are"),
        ('[model]\nconfig = "none.json"', "none.json"),
        ("[model]\nconfig = 3", "there is no file"),
        ("model = 3", "Expected `object`"),
    ],
)
def test_wrong_facts_are_told(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "facts.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        load_facts(file)
    assert says in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "says"), [("{}", "names no num_hidden_layers"), ("[]", "no model's config"), ("{", "no JSON")]
)
def test_what_is_no_config(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UsageError, match=says):
        load_shape(tmp_path)


def test_suppositions() -> None:
    assert read_what_if(()) is None
    assert read_what_if(["allreduce_us=50", "draft_ms = 0"]) == WhatIf(allreduce_us=50, draft_ms=0)
    for wrong in ("allreduce_us", "allreduce_us=fast", "allreduce_us=-1", "x=1"):
        with pytest.raises(UsageError):
            read_what_if([wrong])
