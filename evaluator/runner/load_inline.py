"""torch.utils.cpp_extension as a candidate sees it.

The real module must never be imported here: it asks for CUDA, after which no
fork can use it. `load_inline` hands the sources to the supervisor, which
compiles them outside of this process, and loads what comes back.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

# Set by the runner: (request) -> path of a shared object; raises CompileFailed.
compile_sources: Callable[[dict[str, Any]], str] | None = None


class CompileFailed(Exception):
    """The supervisor already knows why."""


def _list(value: Any) -> list[str]:
    if value is None:
        return []
    return [value] if isinstance(value, str) else [str(v) for v in value]


def load_inline(
    name: str,
    cpp_sources: Any = None,
    cuda_sources: Any = None,
    functions: Any = None,
    extra_cflags: Any = None,
    extra_cuda_cflags: Any = None,
    extra_ldflags: Any = None,
    extra_include_paths: Any = None,
    build_directory: Any = None,
    verbose: bool = False,
    with_cuda: Any = None,
    is_python_module: bool = True,
    with_pytorch_error_handling: bool = True,
    keep_intermediates: bool = True,
    **unknown: Any,
) -> Any:
    assert compile_sources is not None
    names = list(functions) if isinstance(functions, (list, tuple, dict)) else _list(functions)
    request = {
        "cpp_sources": _list(cpp_sources),
        "cuda_sources": _list(cuda_sources),
        "functions": [str(n) for n in names],
        "cuda_flags": _list(extra_cuda_cflags),
        "cpp_flags": _list(extra_cflags),
    }
    path = compile_sources(request)
    from evaluator.emulate import facade

    return facade.build_module(path, request["functions"])


def load(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("cpp_extension.load reads files; use load_inline")


def install() -> None:
    module = types.ModuleType("torch.utils.cpp_extension")
    module.load_inline = load_inline
    module.load = load
    module.CUDA_HOME = "/usr/local/cuda"
    sys.modules["torch.utils.cpp_extension"] = module
    import torch.utils

    torch.utils.cpp_extension = module
