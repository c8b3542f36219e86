"""Holds what a candidate must never see: seeds, inputs' origin, expected outputs.

One process per task, jailed like a runner (tasks may come from other people);
only the secrets set it apart. Answers, over its control socket:
  task     loads the reference, checks that the task can be judged at all
  inputs   input set i (made once, kept), as a memfd
  compare  outputs of a candidate against its own copy for set i
"""

from __future__ import annotations

import math
import os
import socket
import sys
import time
import types
from typing import Any

import torch

from evaluator.oracle import inputs as input_sets
from evaluator.oracle import shrink
from evaluator.runner import wire

MAX_TEXT = 2000
MAX_BURST = 1024
CHECKED_CALLS = 8
EAGER_BUDGET_S = 0.002
FIRST_BURST_SET = 1000
DEFAULT_TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-4}


class TaskError(Exception):
    """The task itself cannot be judged; the reason is shown to the user."""


class Oracle:
    def __init__(self) -> None:
        self.module = types.ModuleType("task")
        self.model: Any = None
        # Inputs come from `seed`, which only this process knows. Weights and
        # random numbers inside forward come from `run_seed`, as in the runner.
        self.seed = 0
        self.run_seed = 0
        self.args0: list[Any] = []  # of set 0
        self.init: Any = None
        self.state: dict[str, torch.Tensor] = {}
        self.sets: dict[int, tuple[int, Any]] = {}  # i -> (fd, expected outputs)
        # (index, n) -> (fd, {position: arguments}): inputs of timed calls, and
        # the few whose outputs are checked. A runner sees each burst once.
        self.bursts: dict[tuple[int, int], tuple[int, dict[int, list[Any]]]] = {}
        self.secret = torch.Generator()
        self.notes: list[str] = []
        self.changes_inputs = False

    def load(self, source: str, seed: int, run_seed: int, max_elements: float) -> None:
        self.seed = seed
        self.run_seed = run_seed
        self.secret.manual_seed(input_sets.derive(seed, 0, "positions"))
        try:
            if max_elements > 0:
                source, self.notes = shrink.shrink_source(source, int(max_elements))
            sys.modules["task"] = self.module
            exec(compile(source, "task.py", "exec"), self.module.__dict__)
            torch.manual_seed(run_seed)
            init = getattr(self.module, "get_init_inputs", list)()
            args, kwargs = input_sets.split_init(init)
            torch.manual_seed(run_seed)
            self.model = self.module.Model(*args, **kwargs)
            self.init = (list(args), kwargs)
            if isinstance(self.model, torch.nn.Module):
                self.state = {k: v.clone() for k, v in self.model.state_dict().items()}
        except BaseException as e:
            raise TaskError(f"the reference does not load: {type(e).__name__}: {e}") from e

    def run(self, args: Any, wide: bool) -> Any:
        """Expected outputs: in fp64 when `wide`, cast back to the reference's
        own types by the caller."""
        model = self.model
        if isinstance(model, torch.nn.Module):
            model.load_state_dict(self.state)
            model = model.double() if wide else model.float() if self.floats() else model
        torch.manual_seed(self.run_seed)
        if wide:
            args = [a.double() if is_float32(a) else a for a in args]
        with torch.no_grad():
            out = model(*args)
        if wide and isinstance(self.model, torch.nn.Module):
            self.model.float()
        return out

    def floats(self) -> bool:
        return any(v.dtype == torch.float64 for v in self.model.state_dict().values())

    def expected(self, args: Any) -> Any:
        # The reference may keep or change its inputs: give it copies.
        given = clone(args)
        # Copies: the outputs may be views of the inputs.
        flat = [t.clone() for t in flatten(self.run(given, wide=False))]
        pairs = [(a, b) for a, b in zip(args, given, strict=True) if isinstance(a, torch.Tensor)]
        self.changes_inputs |= not all(same_bits(a, b) for a, b in pairs)
        if not flat:
            raise TaskError("the reference returns no tensor")
        if any(t.dtype == torch.float32 for t in flat):
            try:
                wide = flatten(self.run(clone(args), wide=True))
                if [t.shape for t in wide] == [t.shape for t in flat]:
                    return [
                        w if w.dtype == torch.float64 and n.dtype == torch.float32 else n
                        for w, n in zip(wide, flat, strict=True)
                    ], flat
            except Exception:
                self.model.float()
        return flat, flat

    def input_set(self, i: int) -> int:
        """The memfd of input set i; expected outputs are computed with it."""
        if i not in self.sets:
            try:
                args = input_sets.make(self.module, self.seed, i)
                expected, narrow = self.expected(args)
            except TaskError:
                raise
            except BaseException as e:
                text = f"the reference fails: {type(e).__name__}: {e}"
                raise TaskError(text) from e
            if i == 0:
                self.args0 = clone(args)
            self.sets[i] = (wire.store(list(args)), (expected, narrow))
        return self.sets[i][0]

    def burst(self, index: int, n: int) -> int:
        """n fresh argument lists, stacked by argument. Bursts of one n have one
        layout, byte for byte, so one can be copied over another. Index 0 has the
        layout and no secrets."""
        if index == 0 and (0, n) not in self.bursts:
            zeros = [torch.zeros_like(a) if isinstance(a, torch.Tensor) else a for a in self.args0]
            columns = [
                torch.stack([a] * n) if isinstance(a, torch.Tensor) else [a] * n for a in zeros
            ]
            self.bursts[index, n] = (wire.store(columns), {})
        if (index, n) not in self.bursts:
            first = FIRST_BURST_SET + index * MAX_BURST
            calls = [input_sets.make(self.module, self.seed, 3 * (first + k) + 1) for k in range(n)]
            columns = [
                torch.stack(list(c)) if isinstance(c[0], torch.Tensor) else list(c)
                for c in zip(*calls, strict=True)
            ]
            # Nobody outside learns which calls will be checked.
            order = torch.randperm(n, generator=self.secret)
            positions = order[:CHECKED_CALLS].tolist()
            checked = {k: calls[k] for k in positions}
            self.bursts[index, n] = (wire.store(columns), checked)
        return self.bursts[index, n][0]

    def slots(self, n: int) -> int:
        """Room for the outputs of n calls, stacked by output."""
        narrow = self.sets[0][1][1]
        return wire.store([torch.zeros((n, *t.shape), dtype=t.dtype) for t in narrow])

    def compare_burst(self, index: int, n: int, ran: int, got: Any, tol: float) -> Any:
        """Checks the secret positions among the first `ran` calls."""
        leaves = flatten(got)
        if any(t.dim() == 0 or t.shape[0] != n for t in leaves):
            return {"ok": False, "text": "a timed call returned another shape", "index": -1}
        worst = 0.0
        for k, args in self.bursts[index, n][1].items():
            if k >= ran:
                continue
            key = -1 - index * MAX_BURST - k
            if key not in self.sets:
                self.sets[key] = (-1, self.expected(args))
            r = self.compare(key, [t[k] for t in leaves], tol)
            worst = max(worst, r["max_error"])
            if not r["ok"]:
                return r
        return {"ok": True, "text": "", "index": -1, "max_error": worst}

    def eager_seconds(self) -> float:
        """The reference's own time: the best of a few calls."""
        best, until = math.inf, time.perf_counter() + EAGER_BUDGET_S
        for _ in range(20):
            args = clone(self.args0)
            begin = time.perf_counter()
            with torch.no_grad():
                self.model(*args)
            end = time.perf_counter()
            best = min(best, end - begin)
            if end > until:
                break
        return best

    def check_task(self, tolerance: float) -> None:
        """A reference that disagrees with itself, or a task that an empty
        answer would pass, cannot be judged."""
        fd = self.input_set(0)
        args = wire.load(fd)
        narrow = self.sets[0][1][1]
        again = flatten(self.run(clone(args), wide=False))
        if not self.compare(0, again, tolerance)["ok"]:
            raise TaskError("the reference fails against itself")
        null = {
            "zeros": [torch.zeros_like(t) for t in narrow],
            "ones": [torch.ones_like(t) for t in narrow],
        }
        mean = [
            torch.full_like(t, t.double().mean().item()) if t.is_floating_point() else t * 0
            for t in narrow
        ]
        if any(t.numel() > 1 for t in narrow):
            null["a constant mean"] = mean
        for k, a in enumerate(a for a in args if isinstance(a, torch.Tensor)):
            if len(narrow) == 1 and a.shape == narrow[0].shape and a.dtype == narrow[0].dtype:
                null[f"a copy of input {k}"] = [a]
        for name, outputs in null.items():
            if self.compare(0, outputs, tolerance)["ok"]:
                raise TaskError(f"{name} would pass as the answer")

    def compare(self, i: int, got: Any, tolerance: float) -> dict[str, Any]:
        expected, narrow = self.sets[i][1]
        outputs = flatten(got)
        bad = {"ok": False, "max_error": -1.0, "index": -1, "expected": 0.0, "got": 0.0}
        if len(outputs) != len(narrow):
            return bad | {"text": f"{len(outputs)} output tensors, expected {len(narrow)}"}
        worst = 0.0
        for k, (e, n, g) in enumerate(zip(expected, narrow, outputs, strict=True)):
            where = f"output {k}: " if len(narrow) > 1 else ""
            if g.shape != n.shape:
                text = f"{where}shape {list(g.shape)}, expected {list(n.shape)}"
                return bad | {"text": text}
            if g.dtype != n.dtype:
                return bad | {"text": f"{where}dtype {g.dtype}, expected {n.dtype}"}
            r = compare_tensor(e, g, tolerance or DEFAULT_TOLERANCE.get(n.dtype, 1e-2))
            worst = max(worst, r["max_error"])
            if not r["ok"]:
                return r | {"text": where + r["text"], "max_error": worst}
        return {
            "ok": True,
            "max_error": worst,
            "index": -1,
            "expected": 0.0,
            "got": 0.0,
            "text": "",
        }


def compare_tensor(expected: torch.Tensor, got: torch.Tensor, tolerance: float) -> dict[str, Any]:
    """|got - expected| <= tol + tol * |expected|; NaN never equals; infinities
    must be the same."""
    if expected.numel() == 0:
        return {"ok": True, "max_error": 0.0, "text": ""}
    if not (expected.is_floating_point() or expected.is_complex()):
        wrong = (got != expected).flatten()
        error = wrong.double()
    else:
        wide = torch.complex128 if expected.is_complex() else torch.float64
        e, g = expected.to(wide).flatten(), got.to(wide).flatten()
        same = e == g
        error = torch.where(same, 0.0, (g - e).abs())
        wrong = ~(same | (error <= tolerance + tolerance * e.abs()))
    finite = error[torch.isfinite(error)]
    worst = float(finite.max()) if finite.numel() else 0.0
    if not bool(wrong.any()):
        return {"ok": True, "max_error": worst, "text": ""}
    index = int(wrong.nonzero()[0])
    e, g = number(expected.flatten()[index]), number(got.flatten()[index])
    share = f"{int(wrong.sum())} of {wrong.numel()} elements are wrong"
    text = f"{share}; first at flat index {index}: expected {e:.6g}, got {g:.6g}"
    return {
        "ok": False,
        "max_error": worst,
        "index": index,
        "expected": e,
        "got": g,
        "text": text,
    }


def number(t: torch.Tensor) -> float:
    """For the verdict; JSON has no NaN or infinity, the text says which."""
    return float(t.abs() if t.is_complex() else t)


def json_safe(reply: dict[str, Any]) -> dict[str, Any]:
    return {
        k: 0.0 if isinstance(v, float) and not math.isfinite(v) else v for k, v in reply.items()
    }


def is_float32(a: Any) -> bool:
    return isinstance(a, torch.Tensor) and a.dtype == torch.float32


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    if not a.is_floating_point():
        return torch.equal(a, b)
    return torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))


def clone(args: Any) -> list[Any]:
    return [a.clone() if isinstance(a, torch.Tensor) else a for a in args]


def flatten(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in flatten(v)]
    if isinstance(value, dict):
        return [t for v in value.values() for t in flatten(v)]
    if isinstance(value, (bool, int, float)):
        return [torch.tensor(value)]
    return []


def answer(o: Oracle, message: dict[str, Any], fds: list[int]) -> tuple[dict[str, Any], list[int]]:
    op = message["op"]
    if op == "task":
        source = wire.load(fds[0])
        o.load(source, message["seed"], message["run_seed"], message["max_elements"])
        o.check_task(message["tolerance"])
        reply = {
            "op": "ready",
            "eager_s": o.eager_seconds(),
            "changes_inputs": o.changes_inputs,
            "notes": o.notes,
        }
        return reply, [wire.store(o.init), wire.store(o.state)]
    if op == "inputs":
        return {"op": "inputs"}, [o.input_set(message["set"])]
    if op == "compare":
        narrow = o.sets[message["set"]][1][1]
        limit = sum(t.numel() * t.element_size() for t in narrow) + (1 << 20)
        try:
            got = wire.load(fds[0], max_bytes=2 * limit, copy=True)
        except wire.WireError as e:
            return {"op": "compared", "ok": False, "text": f"outputs: {e}", "index": -1}, []
        return {"op": "compared", **o.compare(message["set"], got, message["tolerance"])}, []
    if op == "burst":
        return {"op": "burst"}, [o.burst(message["index"], message["n"])]
    if op == "slots":
        return {"op": "slots"}, [o.slots(message["n"])]
    if op == "compare_burst":
        index, n = message["index"], message["n"]
        narrow = o.sets[0][1][1]
        limit = n * sum(t.numel() * t.element_size() + wire.ALIGN for t in narrow) + (1 << 20)
        try:
            # A snapshot of the supervisor's: nobody else writes to it.
            got = wire.load(fds[0], max_bytes=2 * limit)
        except wire.WireError as e:
            return {"op": "compared", "ok": False, "text": f"outputs: {e}", "index": -1}, []
        r = o.compare_burst(index, n, message["ran"], got, message["tolerance"])
        return {"op": "compared", **r}, []
    raise TaskError(f"unknown request {op}")


def main(sock: socket.socket) -> int:
    o = Oracle()
    while (got := wire.receive(sock)) is not None:
        message, fds = got
        try:
            reply, out = answer(o, message, fds)
        except TaskError as e:
            reply, out = {"op": "task_error", "text": str(e)[:MAX_TEXT]}, []
        except Exception as e:
            reply, out = {"op": "task_error", "text": f"{type(e).__name__}: {e}"[:MAX_TEXT]}, []
        wire.send(sock, json_safe(reply), out)
        kept = {fd for fd, _ in (*o.sets.values(), *o.bursts.values())}
        for fd in [*fds, *out]:
            if fd not in kept:
                os.close(fd)
    return 0


def warm_up() -> None:
    compare_tensor(torch.randn(8), torch.randn(8), 1e-4)
    o = Oracle()
    o.load("import torch\nclass Model(torch.nn.Module):\n  def forward(s, x): return x * 2\n", 0, 0, 0)
    o.module.get_inputs = lambda: [torch.randn(8)]
    os.close(o.input_set(0))
    os.close(o.input_set(1))
