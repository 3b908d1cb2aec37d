"""Makes a random Llama of 2 layers with a byte tokenizer: ``PYTHON tiny_model.py FOLDER``, with an engine's Python."""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def main(folder: Path) -> None:
    torch: Any = import_module("torch")
    tokenizers: Any = import_module("tokenizers")
    transformers: Any = import_module("transformers")
    byte_level: Any = tokenizers.pre_tokenizers.ByteLevel
    folder.mkdir(parents=True, exist_ok=True)
    words: list[str] = ["<end>", *sorted(byte_level.alphabet())]
    tokenizer: Any = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocab={word: at for at, word in enumerate(words)}, merges=[])
    )
    tokenizer.pre_tokenizer = byte_level(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(["<end>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<end>", "model_max_length": 2048}
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=512, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=64, max_position_embeddings=2048, tie_word_embeddings=True,
        bos_token_id=0, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
