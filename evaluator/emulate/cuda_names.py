"""CUDA's names on a torch that has none: the device is the host.

Only names: tensors stay where they are. What asks for a cuda device gets the
host's memory, and ``is_cuda`` is true for all of it.
"""

from __future__ import annotations

import functools
import time
import types
from collections.abc import Callable
from typing import Any

_FACTORIES = (
    "arange as_tensor empty empty_like empty_strided eye full full_like "
    "linspace logspace normal ones ones_like rand rand_like randint "
    "randint_like randn randn_like randperm tensor zeros zeros_like"
).split()
_TENSOR_METHODS = "new_empty new_full new_ones new_tensor new_zeros".split()


def _is_cuda(value: Any) -> bool:
    """A device, string or index that names the emulated device."""
    kind = getattr(value, "type", value)
    return isinstance(kind, str) and kind.split(":")[0] == "cuda"


def _without_device(function: Callable) -> Callable:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if "device" in kwargs and (
            _is_cuda(kwargs["device"]) or isinstance(kwargs["device"], int)
        ):
            kwargs["device"] = "cpu"
        return function(*args, **kwargs)

    call._dice_cuda_name = True
    return call


def _wrap_to(function: Callable) -> Callable:
    """Tensor.to and Module.to: a cuda device is where they already are."""

    @functools.wraps(function)
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args and (_is_cuda(args[0]) or type(args[0]) is int):
            args = args[1:]
        if _is_cuda(kwargs.get("device")) or type(kwargs.get("device")) is int:
            del kwargs["device"]
        if not args and not (kwargs.keys() - {"non_blocking", "copy"}):
            return self.clone() if kwargs.get("copy") else self
        return function(self, *args, **kwargs)

    return to


class _Stream:
    """All work is done when it is submitted."""

    cuda_stream = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *args: Any) -> None:
        pass

    def synchronize(self) -> None:
        pass

    wait_stream = wait_event = lambda self, other: None

    def record_event(self, event: Any = None) -> Any:
        event = event or _Event()
        event.record()
        return event

    def query(self) -> bool:
        return True


class _Event:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._time_s = 0.0

    def record(self, stream: Any = None) -> None:
        self._time_s = time.perf_counter()

    def elapsed_time(self, end: _Event) -> float:
        return (end._time_s - self._time_s) * 1e3

    def synchronize(self) -> None:
        pass

    def wait(self, stream: Any = None) -> None:
        pass

    def query(self) -> bool:
        return True


def _returns(value: Any) -> Callable:
    return lambda *args, **kwargs: value


def _same(self: Any, *args: Any, **kwargs: Any) -> Any:
    return self


def install(torch: types.ModuleType) -> None:
    """Process-wide. A second call changes nothing."""
    if getattr(torch.empty, "_dice_cuda_name", False):
        return
    for name in _FACTORIES:
        if hasattr(torch, name):
            setattr(torch, name, _without_device(getattr(torch, name)))
    for name in _TENSOR_METHODS:
        wrapped = _without_device(getattr(torch.Tensor, name))
        setattr(torch.Tensor, name, wrapped)
    torch.Tensor.cuda = _same
    torch.Tensor.to = _wrap_to(torch.Tensor.to)
    torch.Tensor.is_cuda = property(_returns(True))
    torch.Tensor.get_device = _returns(0)
    torch.nn.Module.cuda = _same
    torch.nn.Module.to = _wrap_to(torch.nn.Module.to)

    cuda = torch.cuda
    cuda.is_available = _returns(True)
    cuda.is_initialized = _returns(True)
    cuda.init = _returns(None)
    cuda.device_count = _returns(1)
    cuda.current_device = _returns(0)
    cuda.set_device = _returns(None)
    cuda.get_device_name = _returns("emulated")
    cuda.get_device_capability = _returns((9, 0))
    cuda.synchronize = _returns(None)
    cuda.empty_cache = _returns(None)
    cuda.manual_seed = cuda.manual_seed_all = _returns(None)
    cuda.memory_allocated = cuda.max_memory_allocated = _returns(0)
    cuda.reset_peak_memory_stats = _returns(None)
    cuda.Stream, cuda.Event = _Stream, _Event
    cuda.current_stream = cuda.default_stream = lambda *args: _Stream()
    cuda.stream = lambda stream: stream or _Stream()
    cuda.device = lambda index: _Stream()
