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

    def compile(self, request: dict[str, Any]) -> str:
        fd = wire.store(request)
        wire.send(self.sock, {"op": "compile"}, [fd])
        os.close(fd)
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
    source, init, state = (wire.load(fd) for fd in fds)
    for fd in fds:
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
        inputs = wire.load(fds[0])
        os.close(fds[0])
        before = launches()
        torch.manual_seed(s.seed)
        with torch.no_grad():
            outputs = s.model(*inputs)
        fd = wire.store(outputs)
        wire.send(s.sock, {"op": "outputs", "launches": launches() - before}, [fd])
        os.close(fd)
    elif op == "burst":
        # Everything from here to the answer is on the clock that the supervisor
        # reads from outside: every call's output is part of the answer, so no
        # call can be skipped or put off.
        gc.disable()
        calls = unstack(wire.load(fds[0]))
        os.close(fds[0])
        torch.manual_seed(s.seed)
        model, outputs = s.model, []
        with torch.no_grad():
            for args in calls:
                outputs.append(model(*args))
        fd = wire.store(stack(outputs))
        wire.send(s.sock, {"op": "outputs", "launches": 0}, [fd])
        os.close(fd)


def unstack(columns: list[Any]) -> list[tuple[Any, ...]]:
    """Argument lists of n calls from columns of n stacked values."""
    return list(
        zip(*(c.unbind(0) if isinstance(c, torch.Tensor) else c for c in columns), strict=True)
    )


def stack(outputs: list[Any]) -> Any:
    """n outputs as one value per leaf, stacked where they are tensors."""
    first = outputs[0]
    if isinstance(first, torch.Tensor):
        return torch.stack(outputs)
    if isinstance(first, (list, tuple)):
        return [stack(list(leaf)) for leaf in zip(*outputs, strict=True)]
    return list(outputs)


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
