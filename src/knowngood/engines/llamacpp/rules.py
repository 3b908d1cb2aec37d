"""What llama-server's log says when a launch fails, or when a feature is silently off.

Each example is a line that llama.cpp b11549 wrote (out of xllamacpp 2026.10.11549) unless its comment says otherwise.
llama.cpp prints the cause first and its consequences after it ("failed to create context", "exiting due to model
loading error"); the consequences have no rules.
"""

from knowngood.engines.llamacpp.flags import ALIASES
from knowngood.model.diagnosis import LogRule
from knowngood.model.launch import spellings

COMPONENT = "llama.cpp"
THIS_VERSION = "this version of llama.cpp"


def flags(*canonical: str) -> tuple[str, ...]:
    """All spellings of some flags."""
    return tuple(name for flag in canonical for name in spellings(flag, ALIASES))


COMMAND_LINE = (
    LogRule(
        cause="bad_flag_or_env",
        pattern=r"error: invalid argument: \S+",
        component=COMPONENT,
        remedy="take the flag away, or look its name up in `llama-server --help`: names change between versions",
        example="error: invalid argument: --enable-turbo",
    ),
    LogRule(
        cause="bad_flag_or_env",
        pattern=r'error while handling (?:argument|environment variable) "[^"]+": (?!.*failed to open file)',
        component=COMPONENT,
        remedy="correct the value; `llama-server --help` lists what it takes",
        example='error while handling argument "-ctk": Unsupported cache type: q3_z',
    ),
    LogRule(
        cause="model_files",
        pattern=r'error while handling argument "[^"]+": .*failed to open file',
        component=COMPONENT,
        remedy="check the path: it is relative to the server's working directory",
        example="error while handling argument \"--chat-template-file\": error: failed to open file '/srv/chat.jinja'",
    ),
)

FILES = (
    LogRule(
        cause="model_files",
        pattern=r"gguf_init_from_file(?:_impl)?: failed to open GGUF file",
        component="model loader",
        remedy="check the path of the model: it is relative to the server's working directory",
        example="gguf_init_from_file: failed to open GGUF file 'nope.gguf' (No such file or directory)",
        flags=flags("--model", "--spec-draft-model"),
    ),
    LogRule(
        cause="model_files",
        pattern=r"data is not within the file bounds, model is corrupted or incomplete",
        component="model loader",
        remedy="the file is cut off: copy or download it again",
        example="llama_model_load: error loading model: tensor 'blk.2.ffn_up.weight' data is not within the file "
        "bounds, model is corrupted or incomplete",
        flags=flags("--model", "--spec-draft-model"),
    ),
    LogRule(
        cause="checkpoint_format_mismatch",
        pattern=r"invalid magic characters: .*, expected 'GGUF'",
        component="model loader",
        remedy="convert the model to GGUF: llama-server reads nothing else",
        example="gguf_init_from_reader: invalid magic characters: 'hell', expected 'GGUF'",
        flags=flags("--model", "--spec-draft-model"),
    ),
    LogRule(
        cause="checkpoint_format_mismatch",
        pattern=r"check_tensor_dims: tensor '[^']+' (?:not found|has wrong shape)",
        component="model loader",
        remedy="the file does not hold the tensors its metadata promises: convert it again, or undo --override-kv",
        example="llama_model_load: error loading model: check_tensor_dims: tensor 'blk.30.attn_norm.weight' not found",
        flags=("--override-kv",),
    ),
    LogRule(
        cause="model_arch_unsupported",
        pattern=r"unknown model architecture: '",
        component="model loader",
        remedy="take a newer llama.cpp that knows the architecture",
        # Source text of llama.cpp, src/llama-model-loader.cpp.
        example="llama_model_load: error loading model: error loading model architecture: unknown model architecture: "
        "'brandnew'",
    ),
    LogRule(
        cause="model_files",
        pattern=r"failed to open (?:static|dynamic) lookup cache|Couldn't read (?:static|dynamic) lookup cache",
        component="speculation",
        remedy="put the lookup cache where the flag points to",
        example="spec common_specu: failed to open static lookup cache: nope.bin",
        flags=flags("--lookup-cache-static", "--lookup-cache-dynamic"),
    ),
)

FEATURES = (
    LogRule(
        cause="incompatible_features",
        # The second spelling is that of versions before 2025-08.
        pattern=r"quantized V cache requires flash_attn|V cache quantization requires flash_attn",
        component="KV cache",
        hard=True,
        scope=f"{THIS_VERSION}: a quantised V cache without flash attention",
        remedy="turn flash attention on (-fa on), or leave the V cache at f16; a quantised K cache alone is allowed",
        example="llama_init_from_model: quantized V cache requires flash_attn to be enabled",
        flags=flags("--cache-type-v", "--flash-attn"),
    ),
    LogRule(
        cause="device_or_process_setup",
        pattern=r"LLAMA_SPLIT_MODE_TENSOR needs >= \d+ devices",
        component="device setup",
        remedy="tensor splitting needs accelerators: take --split-mode away on this host",
        example="llama_prepare_model_devices: LLAMA_SPLIT_MODE_TENSOR needs >= 1 devices",
        flags=flags("--split-mode"),
    ),
    LogRule(
        cause="incompatible_features",
        pattern=r"context type MTP requested but model doesn't contain MTP layers",
        component="speculation",
        hard=True,
        scope="this model: it has no layers for multi-token prediction",
        remedy="take a model with MTP layers, or another --spec-type",
        example="llama_init_from_model: context type MTP requested but model doesn't contain MTP layers",
        flags=flags("--spec-type"),
    ),
)

RESOURCES = (
    LogRule(
        cause="network_port_or_interface",
        pattern=r"couldn't bind (?:HTTP server socket|to server socket)",
        component="HTTP server",
        remedy="end the program that listens on the port, or take another port",
        example="srv         start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 18433",
        flags=("--port", "--host"),
    ),
    LogRule(
        cause="host_limits",
        pattern=r"ggml_aligned_malloc: insufficient memory|failed to allocate (?:CPU )?buffer of size",
        component="memory",
        remedy="ask for less: a smaller context (-c), fewer slots (-np), a quantised KV cache, a smaller model",
        # From llama.cpp b10434.
        example="ggml_aligned_malloc: insufficient memory (attempted to allocate 2197265.62 MB)",
        flags=flags("--ctx-size", "--parallel", "--model"),
    ),
    LogRule(
        cause="gpu_oom_load",
        pattern=r"cudaMalloc failed: out of memory|failed to allocate (?:CUDA|ROCm|Vulkan|Metal)\S* buffer",
        component="accelerator memory",
        remedy="offload fewer layers (-ngl), take a smaller context (-c) or batch (-ub), or a smaller model",
        # From a public report.
        example="ggml_backend_cuda_buffer_type_alloc_buffer: allocating 144.00 MiB on device 4: cudaMalloc failed: "
        "out of memory",
        flags=flags("--gpu-layers", "--ctx-size", "--ubatch-size", "--tensor-split"),
    ),
)

SILENT = (
    LogRule(
        cause="incompatible_features",
        pattern=r"the target and draft vocabs are not compatible|draft model vocab type must match target model",
        component="speculation",
        hard=True,
        scope="this pair of model and draft: their vocabularies differ",
        remedy="take a draft model with the target's own vocabulary",
        example="spec common_specu: the target and draft vocabs are not compatible",
        silent=True,
        flags=flags("--spec-draft-model", "--spec-type", "--spec-draft-n-max", "--spec-draft-n-min"),
    ),
    LogRule(
        cause="incompatible_features",
        pattern=r"draft model is not eagle3",
        component="speculation",
        hard=True,
        scope="this draft model: it is no EAGLE-3 head",
        remedy="take an EAGLE-3 head that was trained for the target, or --spec-type draft-simple",
        example="srv    load_model: failed to initialize speculative decoding context: draft model is not eagle3 "
        "(expected 3 extract layers, got 0)",
        silent=True,
        flags=flags("--spec-draft-model", "--spec-type"),
    ),
    LogRule(
        cause="bad_flag_or_env",
        pattern=r"draft-\S+ requires a draft context",
        component="speculation",
        remedy="name a draft model with -md",
        example="srv    load_model: failed to initialize speculative decoding context: draft-simple requires a draft "
        "context",
        silent=True,
        flags=flags("--spec-type"),
    ),
    LogRule(
        cause="slow_fallback",
        pattern=r"no usable GPU found, --gpu-layers option will be ignored",
        component="device setup",
        remedy="take a build for this host's accelerator; on a host without one take the flag away",
        example="warning: no usable GPU found, --gpu-layers option will be ignored",
        silent=True,
        flags=flags("--gpu-layers"),
    ),
    LogRule(
        cause="slow_fallback",
        pattern=r"without support for GPU offload\. Setting the (?:split mode|main GPU|tensor split)",
        component="device setup",
        remedy="take a build for this host's accelerator; on a host without one take the flag away",
        example="warning: llama.cpp was compiled without support for GPU offload. Setting the split mode has no "
        "effect.",
        silent=True,
        flags=flags("--split-mode", "--main-gpu", "--tensor-split"),
    ),
    LogRule(
        cause="bad_flag_or_env",
        pattern=r"the slot context \(\d+\) exceeds the training context of the model \(\d+\) - capping",
        component="context",
        remedy="ask for no more context than the model was trained with, or stretch it with --rope-scaling",
        example="srv    load_model: the slot context (20224) exceeds the training context of the model (8192) - "
        "capping",
        silent=True,
        flags=flags("--ctx-size"),
    ),
    LogRule(
        cause="host_limits",
        pattern=r"failed to mlock \d+-byte buffer",
        component="memory",
        remedy="raise the limit of locked memory (ulimit -l), or take the flag away",
        # Source text of llama.cpp, src/llama-mmap.cpp.
        example="warning: failed to mlock 98566144-byte buffer (after previously locking 0 bytes): Cannot allocate "
        "memory",
        silent=True,
        flags=(*flags("--load-mode"), "--mlock"),
    ),
)

RULES: tuple[LogRule, ...] = COMMAND_LINE + FILES + FEATURES + RESOURCES + SILENT
