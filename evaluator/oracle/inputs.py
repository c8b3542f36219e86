"""Secret inputs of a task.

Set 0 is what the task's get_inputs draws; later sets keep its shapes and types
and add structure (heavy tails, sparse, permuted), where that is legal, so that
partial work, constants and special-casing fail. Integers, bools and inputs that
are not drawn from a symmetric or unit range are never restructured.
"""

from __future__ import annotations

import hashlib
import types
from typing import Any

import torch


def split_init(init: Any) -> tuple[list[Any], dict[str, Any]]:
    """get_init_inputs returns [args...] or [[args...], {kwargs}]."""
    init = list(init) if isinstance(init, (list, tuple)) else [init]
    if len(init) == 2 and isinstance(init[0], (list, tuple)) and isinstance(init[1], dict):
        return list(init[0]), dict(init[1])
    return init, {}


def derive(seed: int, i: int, purpose: str) -> int:
    """One-way: a set that a candidate has seen tells nothing about the others."""
    digest = hashlib.sha256(f"{seed}/{i}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:7], "little")


def make(task: types.ModuleType, seed: int, i: int) -> list[Any]:
    torch.manual_seed(derive(seed, i, "draw"))
    args = task.get_inputs()
    args = list(args) if isinstance(args, (list, tuple)) else [args]
    generator = torch.Generator().manual_seed(derive(seed, i, "structure"))
    return [restructure(a, i, generator) if i else a for a in args]


def restructure(a: Any, i: int, generator: torch.Generator) -> Any:
    if not isinstance(a, torch.Tensor) or a.dtype != torch.float32 or a.numel() < 2:
        return a
    kind = i % 3
    if kind == 1:  # the same distribution, drawn anew
        return a
    signed = bool((a < 0).any())
    if kind == 2:
        # A few elements stand out; zeros elsewhere now and then. Values stay in
        # a range that honest fp32 kernels hold to 1e-4.
        pick = torch.rand(a.shape, generator=generator)
        a = torch.where(pick < 0.05, a * 4 if signed else a, a)
        return torch.where(pick > 0.8, torch.zeros((), dtype=a.dtype), a) if signed else a
    flat = a.flatten()
    order = torch.randperm(flat.numel(), generator=generator)
    return flat[order].reshape(a.shape)
