"""What any server that is a Python or system program says when it fails, whoever wrote it."""

from knowngood.model.diagnosis import LogRule

RULES: tuple[LogRule, ...] = (
    LogRule(
        cause="network_port_or_interface",
        pattern=r"(?i)address already in use|errno 98\b",
        component="network",
        remedy="end the program that listens on the port, or take another port",
        example="OSError: [Errno 98] Address already in use",
    ),
    LogRule(
        cause="gpu_oom_load",
        pattern=r"CUDA out of memory|torch\.(?:cuda\.)?OutOfMemoryError|HIP out of memory",
        component="accelerator memory",
        remedy="ask for less: a shorter context, a smaller batch, another share of memory; look for other users of it",
        example="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    ),
    LogRule(
        cause="host_limits",
        pattern=r"^MemoryError\b|std::bad_alloc|Cannot allocate memory",
        component="memory",
        remedy="ask for less memory, or give the host more",
        example="OSError: [Errno 12] Cannot allocate memory",
    ),
    LogRule(
        cause="missing_dependency",
        pattern=r"ModuleNotFoundError: No module named|ImportError: cannot import name",
        component="Python environment",
        remedy="install the package that the line names into the server's environment",
        example="ModuleNotFoundError: No module named 'flash_attn'",
    ),
    LogRule(
        cause="native_library_mismatch",
        pattern=r"cannot open shared object file|undefined symbol: ",
        component="native library",
        remedy="install the library that the line names, in the version the program was built against",
        example="ImportError: libnuma.so.1: cannot open shared object file: No such file or directory",
    ),
    LogRule(
        cause="bad_flag_or_env",
        pattern=r"error: (?:unrecognized arguments?:|argument \S+: invalid|the following arguments are required)",
        component="command line",
        remedy="correct the flag that the line names; the program's --help lists what it takes",
        example="server.py: error: unrecognized arguments: --enable-turbo",
    ),
    LogRule(
        cause="model_files",
        pattern=r"FileNotFoundError: |Repository Not Found|OfflineModeIsEnabled",
        component="files",
        remedy="check the path or the name that the line names",
        example="FileNotFoundError: [Errno 2] No such file or directory: 'weights.safetensors'",
    ),
)
