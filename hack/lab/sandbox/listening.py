"""Listening TCP ports in a process's network namespace. sock_diag(7)."""

import ctypes
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY = 4, 20
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_NLM_F_REQUEST_AND_DUMP = 0x301
_TCP_LISTEN = 10
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBxxI48x")
_PORT = struct.Struct("!H")
_PORT_OFFSET = _HEADER.size + 4
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def is_listening(pid: int, port: int) -> bool:
    """Return whether a process listens on a TCP port in the network namespace of `pid`; False if that has ended.

    Kernels without sock_diag need /proc/PID/net/tcp, which is slow: it lists all connections of the machine.
    """
    try:
        return port in _ask(pid)
    except OSError:
        return port in _read_from_proc(pid)


def _ask(pid: int) -> Iterator[int]:
    with _socket(pid) as asking:
        for family in (socket.AF_INET, socket.AF_INET6):
            request = _REQUEST.pack(family, socket.IPPROTO_TCP, 1 << _TCP_LISTEN)
            header = _HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST_AND_DUMP, 0, 0)
            asking.send(header + request)
            yield from _answer(asking)


def _answer(asking: socket.socket) -> Iterator[int]:
    while True:
        data = asking.recv(65536)
        while data:
            length, kind, *_ = _HEADER.unpack_from(data)
            if kind == _NLMSG_DONE:
                return
            if kind == _NLMSG_ERROR:
                raise OSError("the kernel does not say which ports are listened on")
            yield _PORT.unpack_from(data, _PORT_OFFSET)[0]
            data = data[(length + 3) & ~3 :]


def _socket(pid: int) -> socket.socket:
    """Return a netlink socket in the network namespace of a process; this thread enters the namespace meanwhile."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        there = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        try:
            entered = not os.path.sameopenfile(own, there)
            if entered:
                _enter(there)
            try:
                return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)
            finally:
                if entered:
                    _enter(own)
        finally:
            os.close(there)
    finally:
        os.close(own)


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def _read_from_proc(pid: int) -> Iterator[int]:
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        for _, local, _, state, *_ in map(str.split, lines):
            if int(state, 16) == _TCP_LISTEN:
                yield int(local.rpartition(":")[2], 16)
