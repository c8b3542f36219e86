"""Messages and tensors between supervisor, oracle and runner.

Messages are one JSON object per SOCK_SEQPACKET datagram, with file descriptors
by SCM_RIGHTS. Tensors travel in memfds: an 8-byte little-endian header length,
a JSON header {"tree": ..., "tensors": [{dtype, shape, offset}]}, then raw
bytes. Nothing is ever unpickled. What a runner writes is hostile: `load` checks
every number before it is used.
"""

from __future__ import annotations

import array
import json
import mmap
import os
import socket
import struct
from typing import Any

import torch

MAX_MESSAGE = 64 * 1024
MAX_HEADER = 4 * 1024 * 1024
ALIGN = 64

DTYPES = {
    name: getattr(torch, name)
    for name in [
        "float64",
        "float32",
        "float16",
        "bfloat16",
        "int64",
        "int32",
        "int16",
        "int8",
        "uint8",
        "bool",
        "complex64",
        "complex128",
    ]
}
NAMES = {v: k for k, v in DTYPES.items()}


class WireError(Exception):
    """The peer sent something that is not in the format."""


def send(sock: socket.socket, message: dict[str, Any], fds: list[int] = ()) -> None:
    data = json.dumps(message).encode()
    if len(data) > MAX_MESSAGE:
        raise WireError(f"message of {len(data)} bytes")
    control = []
    if fds:
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
    sock.sendmsg([data], control)


def receive(sock: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next message, or None when the peer is gone."""
    data, control, _, _ = sock.recvmsg(MAX_MESSAGE + 1, socket.CMSG_SPACE(16 * 4))
    fds = array.array("i")
    for level, kind, payload in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    if not data:
        return None
    return json.loads(data), list(fds)


def pack(value: Any, tensors: list[torch.Tensor]) -> Any:
    """`value` as a JSON tree; tensors are appended and named by index."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return {"t": len(tensors) - 1}
    if value is None or isinstance(value, (bool, int, str)):
        return {"v": value}
    if isinstance(value, float):
        return {"f": value.hex()}
    if isinstance(value, (list, tuple)):
        key = "l" if isinstance(value, list) else "u"
        return {key: [pack(v, tensors) for v in value]}
    if isinstance(value, dict):
        return {"d": [[str(k), pack(v, tensors)] for k, v in value.items()]}
    if isinstance(value, torch.dtype):
        return {"y": NAMES[value]}
    raise WireError(f"a value of type {type(value).__name__} cannot be sent")


def unpack(tree: Any, tensors: list[torch.Tensor], depth: int = 0) -> Any:
    if depth > 16 or not isinstance(tree, dict) or len(tree) != 1:
        raise WireError("malformed tree")
    ((kind, value),) = tree.items()
    if kind == "t":
        if not isinstance(value, int) or not 0 <= value < len(tensors):
            raise WireError("no such tensor")
        return tensors[value]
    if kind == "v":
        if not (value is None or isinstance(value, (bool, int, str))):
            raise WireError("malformed value")
        return value
    if kind == "f":
        return float.fromhex(value)
    if kind == "y":
        return DTYPES[value]
    if kind in "lu" and isinstance(value, list):
        items = [unpack(v, tensors, depth + 1) for v in value]
        return items if kind == "l" else tuple(items)
    if kind == "d" and isinstance(value, list):
        return {str(k): unpack(v, tensors, depth + 1) for k, v in value}
    raise WireError("malformed tree")


def store(value: Any) -> int:
    """A memfd that holds `value`. The caller closes it."""
    fd = os.memfd_create("dice", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    write(fd, value)
    return fd


def write(fd: int, value: Any) -> None:
    """Makes the file `fd` hold `value` and nothing else."""
    tensors: list[torch.Tensor] = []
    tree = pack(value, tensors)
    entries, offset = [], 0
    flat = []
    for t in tensors:
        t = t.detach().contiguous()
        entries.append({"dtype": NAMES[t.dtype], "shape": list(t.shape), "offset": offset})
        flat.append((offset, t))
        size = t.numel() * t.element_size()
        offset += (size + ALIGN - 1) // ALIGN * ALIGN
    header = json.dumps({"tree": tree, "tensors": entries}).encode()
    start = (8 + len(header) + ALIGN - 1) // ALIGN * ALIGN
    os.ftruncate(fd, start + offset)
    os.pwrite(fd, struct.pack("<Q", len(header)) + header, 0)
    for at, t in flat:
        if t.numel():
            view = memoryview(t.reshape(-1).view(torch.uint8).numpy())
            done = 0
            while done < len(view):
                done += os.pwrite(fd, view[done:], start + at + done)


def load(fd: int, max_bytes: int = 1 << 40, copy: bool = False, shared: bool = False) -> Any:
    """The value in a memfd.

    copy=True reads the bytes once into memory of our own: the writer may be
    hostile and still hold the file. shared=True maps the file itself: what one
    side writes, the other sees. Otherwise pages are shared copy-on-write.
    """
    size = os.fstat(fd).st_size
    if size < 8 or size > max_bytes:
        raise WireError(f"{size} bytes, at most {max_bytes} expected")
    if copy:
        buffer = bytearray(size)
        done = 0
        while done < size:
            n = os.preadv(fd, [memoryview(buffer)[done:]], done)
            if n <= 0:
                raise WireError("the file shrank")
            done += n
    else:
        flags = mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE
        buffer = mmap.mmap(fd, size, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    (length,) = struct.unpack_from("<Q", buffer)
    if length > min(size - 8, MAX_HEADER):
        raise WireError("header is too long")
    try:
        header = json.loads(bytes(buffer[8 : 8 + length]))
        start = (8 + length + ALIGN - 1) // ALIGN * ALIGN
        tensors = [_tensor(buffer, size, start, e) for e in header["tensors"]]
        return unpack(header["tree"], tensors)
    except (KeyError, TypeError, ValueError, RecursionError) as e:
        raise WireError(f"malformed: {type(e).__name__}") from None


def _tensor(buffer: Any, size: int, start: int, entry: dict[str, Any]) -> torch.Tensor:
    dtype = DTYPES[entry["dtype"]]
    shape = entry["shape"]
    if len(shape) > 64 or not all(isinstance(d, int) and 0 <= d < 1 << 48 for d in shape):
        raise WireError("bad shape")
    count = 1
    for d in shape:
        count *= d
    offset = entry["offset"]
    if not isinstance(offset, int) or offset < 0 or offset % ALIGN:
        raise WireError("bad offset")
    if start + offset + count * dtype.itemsize > size:
        raise WireError("tensor lies outside the file")
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(buffer, dtype=dtype, count=count, offset=start + offset).reshape(shape)
