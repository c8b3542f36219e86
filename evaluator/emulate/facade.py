"""Loads compiled candidates and calls them; CUDA's names on a CPU-only torch.

``build_module(so_path, functions)`` makes what load_inline returns: an object
with one callable per name. The words that travel are described in
include/dice_emulate/abi.h. ``install_cuda_names(torch)`` lets Python code that
says ``.cuda()`` run on the emulated device, whose memory is the host's.
"""

from __future__ import annotations

import array
import ctypes
import struct
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch

_DTYPES = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 2,
    torch.int32: 3,
    torch.int64: 4,
    torch.float16: 5,
    torch.float32: 6,
    torch.float64: 7,
    torch.bool: 11,
    torch.bfloat16: 15,
}
_NONE, _INT, _FLOAT, _BOOL, _STRING, _TENSOR, _LIST, _TUPLE = range(8)
_ON_CUDA = 1

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_from_dlpack = torch._C._from_dlpack
_bits_of = struct.Struct("=d").pack
_bits_to = struct.Struct("=q").unpack
_int_bits = struct.Struct("=q").pack
_float_of = struct.Struct("=d").unpack

_counters: list[ctypes.c_int64] = []


def launch_count() -> int:
    """Kernel launches of all modules since they were loaded."""
    return sum(c.value for c in _counters)


def _append(words: list[int], value: Any, tensors: list[torch.Tensor]) -> None:
    """Adds one argument. TypeError: no C++ type of ours takes it."""
    if isinstance(value, torch.Tensor):
        dtype = _DTYPES.get(value.dtype)
        if dtype is None:
            raise TypeError(f"tensors of {value.dtype} are not emulated")
        shape = value.shape
        words += (_TENSOR, value.data_ptr(), dtype, _ON_CUDA, len(shape))
        words += shape
        words += value.stride()
    elif isinstance(value, bool):
        words += (_BOOL, value)
    elif isinstance(value, int):
        words += (_INT, value)
    elif isinstance(value, float):
        words += (_FLOAT, *_bits_to(_bits_of(value)))
    elif value is None:
        words.append(_NONE)
    elif isinstance(value, str):
        raw = value.encode()
        words += (_STRING, len(raw))
        words += memoryview(raw + bytes(-len(raw) % 8)).cast("q")
    elif isinstance(value, (list, tuple)):
        words += (_TUPLE if isinstance(value, tuple) else _LIST, len(value))
        for item in value:
            _append(words, item, tensors)
    elif isinstance(value, torch.dtype):
        raise TypeError("a torch.dtype argument is not emulated")
    else:
        raise TypeError(
            f"incompatible function arguments: {type(value).__name__}"
        )


class _Results:
    """Reads one module's result words."""

    def __init__(self, library: ctypes.CDLL) -> None:
        area = (ctypes.c_int64 * (1 << 16)).in_dll(library, "dice_results")
        self._words = memoryview(area).cast("B").cast("q")

    def text(self) -> str:
        return self._string(0)[0]

    def _string(self, at: int) -> tuple[str, int]:
        n = self._words[at + 1]
        words = (n + 7) // 8
        raw = self._words[at + 2 : at + 2 + words].tobytes()[:n]
        return raw.decode(errors="replace"), at + 2 + words

    def value(self, arguments: tuple, at: int = 0) -> tuple[Any, int]:
        """The value at a word and where the next one starts."""
        w = self._words
        tag = w[at]
        if tag == _TENSOR:
            ndim = w[at + 4]
            end = at + 5 + 2 * ndim
            pointer = w[at + 2]
            if pointer:
                capsule = _new_capsule(pointer, b"dltensor", None)
                return _from_dlpack(capsule), end
            base = _nth_tensor(arguments, w[at + 1])
            sizes = tuple(w[at + 5 : at + 5 + ndim])
            strides = tuple(w[at + 5 + ndim : end])
            offset = w[at + 3]
            if not offset and sizes == base.shape and strides == base.stride():
                return base, end
            offset += base.storage_offset()
            return base.detach().as_strided(sizes, strides, offset), end
        if tag == _NONE:
            return None, at + 1
        if tag == _INT:
            return w[at + 1], at + 2
        if tag == _FLOAT:
            return _float_of(_int_bits(w[at + 1]))[0], at + 2
        if tag == _BOOL:
            return bool(w[at + 1]), at + 2
        if tag == _STRING:
            return self._string(at)
        items, end = [], at + 2
        for _ in range(w[at + 1]):
            item, end = self.value(arguments, end)
            items.append(item)
        return (tuple(items) if tag == _TUPLE else items), end


def _nth_tensor(arguments: tuple, code: int) -> torch.Tensor:
    """Argument `code % 2**16`, or item `code >> 16` (from 1) of it."""
    value = arguments[code & 0xFFFF]
    return value if code < 1 << 16 else value[(code >> 16) - 1]


def _make_callable(
    name: str, address: int, results: _Results, keep: ctypes.CDLL
) -> Callable:
    call = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(address)

    def function(*arguments: Any) -> Any:
        words = [len(arguments)]
        for value in arguments:
            _append(words, value, arguments)
        buffer = array.array("q", words)
        kind = call(buffer.buffer_info()[0])
        if kind == 0:
            return results.value(arguments)[0]
        text = results.text()
        if kind == 2:
            raise TypeError(f"{name}(): {text}")
        raise RuntimeError(text)

    function.__name__ = function.__qualname__ = name
    function._library = keep  # never unloaded: outputs free through it
    return function


def build_module(
    so_path: str, functions: Iterable[str], name: str = "extension"
) -> types.ModuleType:
    """Loads a compiled candidate. AttributeError: it lacks a function.

    OSError: the object cannot be loaded. The object stays loaded for good.
    Without names, all that it has (those of its PYBIND11_MODULE).
    """
    for library in ("libstdc++.so.6", "libm.so.6", "libgcc_s.so.1"):
        ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    library = ctypes.PyDLL(so_path)
    library.dice_find.restype = ctypes.c_void_p
    library.dice_find.argtypes = [ctypes.c_char_p]
    library.dice_names.restype = ctypes.c_char_p
    _counters.append(ctypes.c_int64.in_dll(library, "dice_launch_count"))
    results = _Results(library)
    module = types.ModuleType(name)
    names = list(functions) or library.dice_names().decode().split()
    for function in names:
        address = library.dice_find(function.encode())
        if not address:
            raise AttributeError(f"{so_path} has no function {function}")
        made = _make_callable(function, address, results, library)
        setattr(module, function, made)
    return module


def install_cuda_names(torch_module: types.ModuleType) -> None:
    """Makes ``cuda`` a name for the host, process-wide. Idempotent."""
    from evaluator.emulate import cuda_names

    cuda_names.install(torch_module)
