"""Makes a task smaller, so that a CPU can judge it (Profile.max_elements).

The rule: integer constants assigned at module level (batch_size = 128, and the
integers of module-level tuples) are what KernelBench-style tasks build their
shapes from. An even one that is >= 16 may be halved, down to 8, until no input
tensor has more than max_elements elements; smaller ones (kernel sizes, strides)
stay. Three ways are tried, and the first whose task runs is taken: only
constants called after the batch; all, the largest first; all, with a trial run
after each halving, undone where the reference no longer accepts the sizes.
Reference and candidate get the same init arguments and inputs, so a candidate
that reads its sizes from its arguments is judged as it is.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from typing import Any

import torch

from evaluator.oracle.inputs import split_init

SMALLEST = 8
LEAST_SHRUNK = 16


def shrink_source(source: str, max_elements: int) -> tuple[str, list[str]]:
    """The task with smaller sizes, and what was changed, for the verdict."""
    original = ast.parse(source)
    if largest_input(original) <= max_elements:
        return source, []
    for which, careful in ((batch_constants, False), (size_constants, False)):
        tree = halve(copy.deepcopy(original), which, max_elements, careful)
        if largest_input(tree) <= max_elements and runs(tree):
            break
    else:
        tree = halve(copy.deepcopy(original), size_constants, max_elements, True)
    pairs = zip(size_constants(original), size_constants(tree), strict=True)
    changed = [f"{a.value} -> {b.value}" for a, b in pairs if a.value != b.value]
    if not changed:
        return source, []
    return ast.unparse(tree), [f"the task was made smaller: sizes {', '.join(changed)}"]


def halve(
    tree: ast.Module,
    which: Callable[[ast.Module], list[ast.Constant]],
    max_elements: int,
    careful: bool,
) -> ast.Module:
    frozen: set[int] = set()
    while largest_input(tree) > max_elements:
        usable = [
            (k, c)
            for k, c in enumerate(which(tree))
            if k not in frozen and c.value >= LEAST_SHRUNK and c.value % 2 == 0
        ]
        if not usable:
            break
        k, constant = max(usable, key=lambda kc: kc[1].value)
        before = constant.value
        constant.value = max(SMALLEST, before // 2)
        if careful and not runs(tree, meta=True):
            constant.value = before
            frozen.add(k)
    return tree


def batch_constants(tree: ast.Module) -> list[ast.Constant]:
    out = []
    for s in tree.body:
        if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name):
            name = s.targets[0].id.lower()
            is_batch = "batch" in name or name in ("n", "b", "bs")
            if is_batch and isinstance(s.value, ast.Constant) and type(s.value.value) is int:
                out.append(s.value)
    return out


def size_constants(tree: ast.Module) -> list[ast.Constant]:
    """Integer constants of module-level assignments, in source order."""
    out = []
    for statement in tree.body:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            for node in ast.walk(statement.value):
                if isinstance(node, ast.Constant) and type(node.value) is int:
                    out.append(node)
    return out


def namespace(tree: ast.Module) -> dict[str, Any]:
    scope: dict[str, Any] = {}
    exec(compile(ast.unparse(tree), "task.py", "exec"), scope)
    return scope


def largest_input(tree: ast.Module) -> int:
    """Elements of the largest input; drawn on the meta device, so nothing is
    allocated."""
    try:
        with torch.device("meta"):
            args = namespace(tree)["get_inputs"]()
    except Exception:
        args = namespace(tree)["get_inputs"]()
    return max((a.numel() for a in args if isinstance(a, torch.Tensor)), default=0)


def runs(tree: ast.Module, meta: bool = False) -> bool:
    """Whether the reference accepts the sizes; on the meta device nothing is
    computed, which takes torch seconds to get ready for."""
    try:
        with torch.device("meta" if meta else "cpu"), torch.no_grad():
            scope = namespace(tree)
            args, kwargs = split_init(scope.get("get_init_inputs", list)())
            scope["Model"](*args, **kwargs)(*scope["get_inputs"]())
        return True
    except NotImplementedError:
        return True
    except Exception:
        return False
