"""The warm parent of every oracle and runner.

Single-threaded, imports torch once, runs nothing hostile. Over file descriptor
3 (SOCK_SEQPACKET) it takes {"op": "fork", "job", "role", "limits"} with the
child's own control socket, and answers {"job", "pid"} with a pidfd, then
{"job", "exit": code or -signal} when it ended. It ends with its supervisor.

Usage: zygote.py HARNESS_DIR JAIL_LIBRARY LEVEL ROOT
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import select
import signal
import socket
import sys
import sysconfig

HARNESS, JAIL, LEVEL, ROOT = sys.argv[1:5]
sys.path.insert(0, HARNESS)
sys.dont_write_bytecode = True

import torch  # noqa: E402
import torch.nn.functional  # noqa: E402

from evaluator.oracle import oracle  # noqa: E402
from evaluator.runner import load_inline, runner, wire  # noqa: E402

ROLES = {"runner": 1, "oracle": 2}
# A user id for each child, so that none can signal or trace another, and limits
# by user are limits by child. systemd hands out the same range for passing use.
FIRST_UID, UIDS = 61184, 4096


class Limits(ctypes.Structure):
    _fields_ = [
        ("data_bytes", ctypes.c_int64),
        ("file_bytes", ctypes.c_int64),
        ("open_files", ctypes.c_int64),
        ("cpu_seconds", ctypes.c_int64),
        ("uid", ctypes.c_int32),
        ("threads", ctypes.c_int32),
        ("role", ctypes.c_int32),
    ]


def visible_paths() -> str:
    """What Python and torch read after start: interpreter, libraries, harness."""
    paths = {"/lib", "/lib64", "/usr/lib", "/usr/lib64", HARNESS + "/evaluator"}
    for name in ("stdlib", "purelib", "platlib"):
        paths.add(sysconfig.get_paths()[name])
    paths.add(os.path.dirname(os.path.dirname(torch.__file__)))
    ordered = sorted(os.path.realpath(p) if p.startswith("/usr") else p for p in paths)
    out: list[str] = []
    for p in ordered:
        if not any(p == q or p.startswith(q + "/") for q in out):
            out.append(p)
    return "\n".join(out)


def warm_up() -> None:
    """Touches what every child needs, so that it is shared and not repeated."""
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    load_inline.install()
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    with torch.no_grad():
        model(torch.randn(2, 4)).sum().item()
    oracle.warm_up()
    gc.collect()
    gc.freeze()


def main() -> None:
    supervisor = socket.socket(fileno=3)
    # Threads (gRPC's, torch's) must never be alive across a fork.
    warm_up()
    # Keeps the GIL: the child must come back holding it.
    jail = ctypes.PyDLL(JAIL)
    error = ctypes.create_string_buffer(512)
    level = jail.dice_jail_prepare(
        int(LEVEL), ROOT.encode(), visible_paths().encode(), error, len(error)
    )
    jail.dice_jail_compact()
    text = error.value.decode(errors="replace")
    landlock = bool(jail.dice_jail_features())
    wire.send(supervisor, {"ready": level, "text": text, "landlock": landlock})
    if level < 0:
        sys.exit(3)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    base = data_bytes()
    poll = select.poll()
    poll.register(supervisor, select.POLLIN)
    children: dict[int, tuple[int, str]] = {}  # pidfd -> (pid, job)
    forks = 0
    while True:
        for fd, _ in poll.poll():
            if fd != supervisor.fileno():
                reap(supervisor, poll, children, fd)
                continue
            got = wire.receive(supervisor)
            if got is None:
                for pid, _ in children.values():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                return
            request, fds = got
            limits = Limits(**request["limits"])
            limits.data_bytes += base
            limits.role = ROLES[request["role"]]
            limits.uid = FIRST_UID + forks % UIDS
            forks += 1
            pidfd = ctypes.c_int(-1)
            pid = jail.dice_jail_fork(ctypes.byref(limits), ctypes.byref(pidfd), error, len(error))
            if pid == 0:
                ctypes.pythonapi.PyOS_AfterFork_Child()
                child(request["role"], fds[0], supervisor, children)
            os.close(fds[0])
            if pid < 0:
                text = error.value.decode(errors="replace")
                wire.send(supervisor, {"job": request["job"], "error": text})
                continue
            children[pidfd.value] = (pid, request["job"])
            poll.register(pidfd.value, select.POLLIN)
            wire.send(supervisor, {"job": request["job"], "pid": pid}, [pidfd.value])


def reap(supervisor: socket.socket, poll: select.poll, children: dict, pidfd: int) -> None:
    pid, job = children.pop(pidfd)
    poll.unregister(pidfd)
    os.close(pidfd)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    wire.send(supervisor, {"job": job, "exit": code})


def child(role: str, control: int, supervisor: socket.socket, children: dict) -> None:
    """Never returns."""
    code = 1
    try:
        supervisor.close()
        for pidfd in children:
            os.close(pidfd)
        # stdout and stderr lead nowhere: a candidate may print what it likes.
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        sock = socket.socket(fileno=control)
        code = oracle.main(sock) if role == "oracle" else runner.main(sock)
    finally:
        os._exit(code)


def data_bytes() -> int:
    """Private memory of this process, which a child's limit must allow for."""
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    return 0


if __name__ == "__main__":
    main()
