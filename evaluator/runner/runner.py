"""Runs one candidate, in the jail, never reused.

Everything in this process is hostile once the candidate's module body ran: the
supervisor believes of it only output bytes, whose shape and type the oracle
checks. What this file reports (which stage failed, a launch count) is evidence
that can lower a verdict, never raise it.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
import types
from typing import Any

import torch

from evaluator.runner import load_inline, wire

MAX_TEXT = 4000


class Session:
    """The conversation with the supervisor."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.module = types.ModuleType("candidate")
        self.model: Any = None
        self.seed = 0
        self.outbox = -1  # the file that compile requests are written to
        self.rings: list[tuple[list[Any], list[Any]]] = []

    def compile(self, request: dict[str, Any]) -> str:
        wire.write(self.outbox, request)
        wire.send(self.sock, {"op": "compile"})
        got = wire.receive(self.sock)
        if got is None:
            os._exit(1)
        answer, fds = got
        if not answer["ok"]:
            raise load_inline.CompileFailed
        return f"/proc/self/fd/{fds[0]}"

    def fail(self, stage: str, e: BaseException) -> None:
        if isinstance(e, load_inline.CompileFailed):
            stage = "compile"
        kind = "memory" if isinstance(e, MemoryError) else type(e).__name__
        text = f"{type(e).__name__}: {e}"[:MAX_TEXT]
        wire.send(self.sock, {"op": "failed", "stage": stage, "kind": kind, "text": text})


def start(s: Session, message: dict[str, Any], fds: list[int]) -> str | None:
    """Parses, runs the module body and builds ModelNew. The failed stage or None."""
    *sources, s.outbox = fds
    source, init, state = (wire.load(fd) for fd in sources)
    for fd in sources:
        os.close(fd)
    s.seed = message["seed"]
    if message["cuda_names"]:
        from evaluator.emulate import facade

        facade.install_cuda_names(torch)
    load_inline.compile_sources = s.compile
    try:
        code = compile(source, "candidate.py", "exec")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as e:
        s.fail("parse", e)
        return "parse"
    s.module.__file__ = "candidate.py"
    sys.modules["candidate"] = s.module
    try:
        exec(code, s.module.__dict__)
    except BaseException as e:
        s.fail("load", e)
        return "load"
    if not isinstance(getattr(s.module, "ModelNew", None), type):
        s.fail("parse", ValueError("the candidate defines no class ModelNew"))
        return "parse"
    try:
        torch.manual_seed(s.seed)
        args, kwargs = init
        model = s.module.ModelNew(*args, **kwargs)
        if isinstance(model, torch.nn.Module):
            copy_state(model, state)
        s.model = model
    except BaseException as e:
        s.fail("load", e)
        return "load"
    return None


def copy_state(model: torch.nn.Module, state: dict[str, torch.Tensor]) -> None:
    """Same weights on both sides: by name, else in order where shapes agree,
    else as the seed made them."""
    own = model.state_dict()
    pairs = [(own[n], state[n]) for n in own if n in state and own[n].shape == state[n].shape]
    if len(pairs) != len(state) and len(own) == len(state):
        by_order = list(zip(own.values(), state.values(), strict=True))
        if all(a.shape == b.shape for a, b in by_order):
            pairs = by_order
    with torch.no_grad():
        for mine, theirs in pairs:
            mine.copy_(theirs)


def launches() -> int:
    facade = sys.modules.get("evaluator.emulate.facade")
    return facade.launch_count() if facade else 0


def handle(s: Session, message: dict[str, Any], fds: list[int]) -> None:
    op = message["op"]
    if op == "run":
        inputs = wire.load(fds[0], shared=True)
        os.close(fds[0])
        before = launches()
        torch.manual_seed(s.seed)
        with torch.no_grad():
            outputs = s.model(*inputs)
        wire.write(fds[1], outputs)
        os.close(fds[1])
        wire.send(s.sock, {"op": "outputs", "launches": launches() - before})
    elif op == "ring":
        # Inputs and room for outputs of the calls of one burst. The supervisor
        # writes fresh inputs into it before each burst.
        calls = unstack(wire.load(fds[0], shared=True))
        slots = list(zip(*(o.unbind(0) for o in wire.load(fds[1], shared=True)), strict=True))
        for fd in fds:
            os.close(fd)
        s.rings.append((calls, slots))
        gc.disable()
        wire.send(s.sock, {"op": "ready"})
    elif op == "burst":
        # From the arrival of the inputs to the copy of the last output the
        # supervisor's clock runs, read from outside: no call can be skipped or
        # put off, and nothing is known of the inputs before.
        calls, slots = s.rings[message["ring"]]
        torch.manual_seed(s.seed)
        burst(s.model, calls, slots, message["n"])
        wire.send(s.sock, {"op": "done"})


def burst(model: Any, calls: list[Any], slots: list[Any], n: int) -> None:
    with torch.no_grad():
        if len(slots[0]) == 1:
            for args, (slot,) in zip(calls[:n], slots, strict=False):
                slot.copy_(model(*args))
            return
        for args, row in zip(calls[:n], slots, strict=False):
            for slot, out in zip(row, flatten(model(*args)), strict=True):
                slot.copy_(out)


def flatten(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in flatten(v)]
    return [] if value is None else [torch.tensor(value)]


def unstack(columns: list[Any]) -> list[tuple[Any, ...]]:
    """Argument lists of n calls from columns of n stacked values."""
    return list(
        zip(*(c.unbind(0) if isinstance(c, torch.Tensor) else c for c in columns), strict=True)
    )


def main(sock: socket.socket) -> int:
    s = Session(sock)
    got = wire.receive(sock)
    if got is None:
        return 0
    if start(s, *got) is not None:
        wire.receive(sock)  # the supervisor kills us
        return 0
    wire.send(sock, {"op": "loaded"})
    while (got := wire.receive(sock)) is not None:
        try:
            handle(s, *got)
        except BaseException as e:
            s.fail("run", e)
    return 0
