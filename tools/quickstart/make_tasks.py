"""Makes the quickstart's task set: every problem, bit for bit, from a seed.

usage: make_tasks.py OUT.jsonl.gz [--seed 1] [--per-family 70] [--heldout 8]

A problem is accepted when it is safe to judge (no sum that cancels, nothing
that overflows on large inputs), when its output is neither flat nor a copy of
an input, and when no accepted problem computes the same function. Held-out
problems are whole problems: their specification never occurs in training.
"""

from __future__ import annotations

import argparse
import gzip
import json
import pathlib
import random
from itertools import pairwise

import torch
from kernels import BUILD, FOLD, GATHER, NORM, UNARY, Kernel, Problem

ALL = list(UNARY)
EXACT = [op for op, (_, _, exact) in UNARY.items() if exact]
SLOW = {"sigmoid", "tanh"}
NON_NEGATIVE = {"abs", "relu", "square", "bell"}
FLAT = 0.02  # least spread of an output, 200 times the absolute tolerance


def draw(rng: random.Random, ops: list[str], low: int, high: int) -> tuple[str, ...]:
    return tuple(rng.choice(ops) for _ in range(rng.randint(low, high)))


def propose(family: str, rng: random.Random) -> Problem:
    """A random point of a family; sums are over terms that cannot cancel."""
    if family in ("chain", "transpose", "gather"):
        core = rng.choice(list(GATHER)) if family == "gather" else ""
        return Problem(family, core, draw(rng, ALL, 1 + (family == "chain"), 4 - bool(core)))
    if family in ("pair", "row", "column"):
        core = rng.choice(["add", "sub", "mul", "max", "min"])
        return Problem(family, core, draw(rng, EXACT, 0, 2), draw(rng, ALL, 0, 2))
    if family in ("normalise", "softmax"):
        core = rng.choice(list(NORM)) if family == "normalise" else ""
        return Problem(family, core, draw(rng, EXACT, 0, 2), draw(rng, ALL, 0, 2))
    if family in ("rowfold", "colfold"):
        core = rng.choice(list(FOLD))
    elif family == "scan":
        core = rng.choice(["sum", "max", "min"])
    elif family == "window":
        core = rng.choice(["sum", "max", "min"]) + str(rng.randint(1, 3))
    else:
        core = "sum"  # dot, matmul
    pre = draw(rng, ALL, 0, 2)
    if core.startswith(("sum", "mean")):
        pre = (*pre[:1], rng.choice(sorted(NON_NEGATIVE)))
    return Problem(family, "" if core == "sum" and family in ("dot", "matmul") else core,
                   pre, draw(rng, ALL, 0, 2))  # fmt: skip


def unwanted(p: Problem) -> bool:
    """Says the same thing twice, may grow past fp32, or is slow for its size."""
    ops = [*p.pre, *p.post]
    squares = ops.count("square") + (p.core == "mul") + (p.family in ("dot", "matmul"))
    # Dear functions stand only where the naive kernel does not repeat them.
    element = p.family in ("chain", "pair", "row", "column", "transpose", "gather")
    once = ops if element else p.post
    slow = sum(op in SLOW for op in ops)
    if slow > min(1, sum(op in SLOW for op in once)):
        return True
    twice = any(a == b and a not in ("inc", "dec") for a, b in pairwise(ops))
    return squares > 2 or twice


def outputs(kernel: Kernel, inputs: list[torch.Tensor]) -> torch.Tensor:
    scope = {"torch": torch, "v": inputs[0], "y": inputs[-1]}
    exec("\n".join(kernel.forward), scope)
    return scope["v"]


def fixed_inputs(kernel: Kernel) -> list[torch.Tensor]:
    rng = random.Random(7)
    out = []
    for shape in kernel.inputs:
        flat = [rng.gauss(0, 1) for _ in range(torch.Size(shape).numel())]
        out.append(torch.tensor(flat, dtype=torch.float64).view(shape))
    return out


def fingerprint(kernel: Kernel) -> tuple | None:
    """What the problem computes, rounded; None if it must not be judged."""
    inputs = fixed_inputs(kernel)
    out = outputs(kernel, inputs)
    if tuple(out.shape) != kernel.output or not bool(out.isfinite().all()):
        raise ValueError(f"{kernel.spec}: {tuple(out.shape)}")
    if out.std() < FLAT or out.abs().mean() < FLAT:
        return None
    for x in inputs:
        if x.shape == out.shape and (x - out).abs().max() < FLAT:
            return None
    return (kernel.output, *[round(float(v), 4) for v in out.flatten()[:64]])


HEAD = '''import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
{signature}
{{{{response}}}}
torch::Tensor run({parameters}) {{
  auto o = torch::empty({{{shape}}}, x.options());
  k<<<{blocks}, {block}>>>({arguments}, o.data_ptr<float>());
  return o;
}}
"""
cpp_source = "torch::Tensor run({parameters});"

module = load_inline(
    name="quickstart",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["run"],
)


class ModelNew(nn.Module):
    def forward(self, {names}):
        return module.run({names})
'''


def text(lines: list[str]) -> str:
    return "".join(line + "\n" for line in lines)


def signature(names: list[str]) -> str:
    return f"__global__ void k({''.join(f'const float* {n}, ' for n in names)}float* o) {{"


def template(kernel: Kernel, names: list[str]) -> str:
    block = max(b for b in range(1, 257) if kernel.threads % b == 0)
    return HEAD.format(
        signature=signature(names),
        parameters=", ".join(f"torch::Tensor {n}" for n in names),
        arguments=", ".join(f"{n}.data_ptr<float>()" for n in names),
        names=", ".join(names),
        shape=", ".join(map(str, kernel.output)),
        blocks=kernel.threads // block,
        block=block,
    )


def reference(kernel: Kernel, names: list[str]) -> str:
    body = ["v = x", *kernel.forward, "return v"]
    shapes = ", ".join(f"torch.randn({', '.join(map(str, s))})" for s in kernel.inputs)
    return (
        "import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n"
        f"    def forward(self, {', '.join(names)}):\n"
        + text(["        " + line for line in body])
        + f"\n\ndef get_inputs():\n    return [{shapes}]\n"
        "\n\ndef get_init_inputs():\n    return []\n"
    )


def task(kernel: Kernel, family: str, number: int, split: str) -> dict:
    names = ["x", "y"][: len(kernel.inputs)]
    prefix, suffix = text(kernel.prefix), text(kernel.suffix)
    head = f"// {kernel.spec}\n"
    solutions = [
        {
            "response": prefix + text(middle) + suffix,
            "quality": quality,
            "scaffold": {"prefix": prefix, "middle": text(middle), "suffix": suffix},
        }
        for quality, middle in (("naive", kernel.naive), ("good", kernel.good))
    ]
    # The suffix stands in the prompt when only the middle is wanted.
    ends = f"// ends {' '.join(kernel.suffix)}\n"
    return {
        "id": f"qs/{family}/{number:04d}",
        "family": family,
        "reference_source": reference(kernel, names),
        "prompt": head + signature(names) + "\n",
        "infill_prompt": head + ends + signature(names) + "\n",
        "candidate_template": template(kernel, names),
        "scaffold": solutions[1]["scaffold"],
        "solutions": solutions,
        "naive_response": solutions[0]["response"],
        "split": split,
    }


def family_problems(family: str, count: int, rng: random.Random, seen: set) -> list[Kernel]:
    out: list[Kernel] = []
    for _ in range(400 * count):
        if len(out) == count:
            return out
        problem = propose(family, rng)
        if unwanted(problem):
            continue
        kernel = BUILD[family](problem)
        key = fingerprint(kernel)
        if key is not None and key not in seen:
            seen.add(key)
            out.append(kernel)
    raise ValueError(f"{family}: only {len(out)} distinct problems")


def make(seed: int, per_family: int, heldout: int) -> list[dict]:
    seen: set = set()
    tasks = []
    for family in BUILD:
        rng = random.Random(f"{seed}/{family}")
        for number, kernel in enumerate(family_problems(family, per_family, rng, seen)):
            split = "heldout" if number < heldout else "train"
            tasks.append(task(kernel, family, number, split))
    random.Random(f"{seed}/order").shuffle(tasks)
    return tasks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--per-family", type=int, default=70)
    parser.add_argument("--heldout", type=int, default=8)
    args = parser.parse_args()
    torch.set_num_threads(1)
    tasks = make(args.seed, args.per_family, args.heldout)
    lines = "".join(json.dumps(t) + "\n" for t in tasks).encode()
    # Without name and time, so that the file depends on its content alone.
    with args.out.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, 0) as f:
        f.write(lines)
    print(f"{len(tasks)} tasks, {len(lines)} bytes")


if __name__ == "__main__":
    main()
