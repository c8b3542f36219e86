"""Makes a task smaller, so that a CPU can judge it (Profile.max_elements).

The rule: integer constants assigned at module level (batch_size = 128, and the
integers of module-level tuples) are what KernelBench-style tasks build their
shapes from. The largest of those that are >= 16 is halved, over and over, until
no input tensor has more than max_elements elements; a value never falls below
8, and odd values and constants used as kernel sizes (< 16) stay. If the reference
does not run with the smaller sizes, that halving is undone and the next largest
is tried. Reference and candidate get the same init arguments and inputs, so a
candidate that reads its sizes from its arguments is judged as it is.
"""

from __future__ import annotations

import ast
import copy
from typing import Any

import torch

SMALLEST = 8
LEAST_SHRUNK = 16


def shrink_source(source: str, max_elements: int) -> tuple[str, list[str]]:
    """The task with smaller sizes, and what was changed, for the verdict."""
    tree = ast.parse(source)
    sizes = [c.value for c in size_constants(tree)]
    frozen: set[int] = set()
    while largest_input(tree) > max_elements:
        constants = [c for k, c in enumerate(size_constants(tree)) if k not in frozen]
        numbered = [(k, c) for k, c in enumerate(size_constants(tree)) if k not in frozen]
        numbered = [(k, c) for k, c in numbered if c.value >= LEAST_SHRUNK and c.value % 2 == 0]
        if not constants or not numbered:
            break
        k, _ = max(numbered, key=lambda kc: kc[1].value)
        before = copy.deepcopy(tree)
        constant = size_constants(tree)[k]
        constant.value = max(SMALLEST, constant.value // 2)
        if not runs(tree):
            tree = before
            frozen.add(k)
    smaller = [c.value for c in size_constants(tree)]
    changed = [f"{a} -> {b}" for a, b in zip(sizes, smaller, strict=True) if a != b]
    if not changed:
        return source, []
    return ast.unparse(tree), [f"the task was made smaller: sizes {', '.join(changed)}"]


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


def runs(tree: ast.Module) -> bool:
    """Whether the reference accepts the sizes (shapes only, nothing computed)."""
    try:
        with torch.device("meta"), torch.no_grad():
            scope = namespace(tree)
            from evaluator.oracle.inputs import split_init

            args, kwargs = split_init(scope.get("get_init_inputs", list)())
            scope["Model"](*args, **kwargs)(*scope["get_inputs"]())
        return True
    except NotImplementedError:
        return True
    except Exception:
        return False
