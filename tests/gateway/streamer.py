"""Long streams between pods; each byte is determined by its position. Runs as a process.

`python streamer.py serve PORT` receives and sends as clients ask, until its input ends.

`python streamer.py send HOST PORT MIB BACK` sends MIB MiB, then receives BACK MiB. It prints as JSON, for both
directions, the received bytes, the seconds, and the digests at both ends.
"""

import hashlib
import json
import random
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

MIB = 1 << 20
_STEP = 64 * 1024
_SHIFT = 4099
"""Offset in bytes between consecutive MiB in the common content, so that all of them differ."""
_SIZES = struct.Struct(">QQ")
_DIGEST = hashlib.sha256().digest_size


def content(mib: int) -> Iterator[bytes]:
    """Yield this many MiB; each 64 KiB begin with their number."""
    base = random.Random(mib).randbytes(2 * MIB)
    for number in range(mib):
        start = number * _SHIFT % MIB
        chunk = bytearray(base[start : start + MIB])
        for place in range(0, MIB, _STEP):
            struct.pack_into(">Q", chunk, place, number * MIB + place)
        yield bytes(chunk)


def say(connection: socket.socket, mib: int) -> bytes:
    """Send this many MiB. Return their digest."""
    said = hashlib.sha256()
    for chunk in content(mib):
        said.update(chunk)
        connection.sendall(chunk)
    return said.digest()


def hear(connection: socket.socket, mib: int) -> tuple[int, bytes]:
    """Receive this many MiB, or until the end. Return the number of bytes and their digest."""
    heard, count, buffer = hashlib.sha256(), 0, bytearray(MIB)
    while count < mib * MIB:
        got = connection.recv_into(buffer, min(MIB, mib * MIB - count))
        if not got:
            break
        heard.update(memoryview(buffer)[:got])
        count += got
    return count, heard.digest()


def send(host: str, port: int, mib: int, back: int) -> dict[str, Any]:
    """Stream in both directions, one after the other."""
    with socket.create_connection((host, port)) as connection:
        began = time.monotonic()
        connection.sendall(_SIZES.pack(mib, back))
        said = say(connection, mib)
        count, told = _SIZES.unpack(_whole(connection, _SIZES.size))[0], _whole(connection, _DIGEST)
        turned = time.monotonic()
        got, heard = hear(connection, back)
        there = {"bytes": count, "seconds": turned - began, "said": said.hex(), "heard": told.hex()}
        told = _whole(connection, _DIGEST)
        seconds = time.monotonic() - turned
        return {"there": there, "back": {"bytes": got, "seconds": seconds, "said": told.hex(), "heard": heard.hex()}}


def serve(port: int) -> None:
    """Answer until the input ends."""
    listener = socket.create_server(("0.0.0.0", port))
    threading.Thread(target=_accept, args=(listener,), daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()


def _accept(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    with connection:
        mib, back = _SIZES.unpack(_whole(connection, _SIZES.size))
        count, heard = hear(connection, mib)
        connection.sendall(_SIZES.pack(count, back) + heard)
        connection.sendall(say(connection, back))


def _whole(connection: socket.socket, size: int) -> bytes:
    found = connection.recv(size, socket.MSG_WAITALL)
    if len(found) < size:
        raise ConnectionError(f"closed after {len(found)} of {size} bytes")
    return found


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        print(json.dumps(send(sys.argv[2], *map(int, sys.argv[3:]))))
