"""Functions that worker processes of tests run."""

import os
import signal
import time

import msgspec

from agent.ranking.placing import celexpr


def obey(request: bytes) -> bytes:
    """Carry out the command in the request, or return the request."""
    match request.partition(b" ")[0]:
        case b"fail":
            raise ValueError("as was asked")
        case b"crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case b"exit":
            os._exit(3)
        case b"spin":
            while True:
                pass
        case b"pause":
            time.sleep(float(request.partition(b" ")[2]))
        case b"fill":
            return b"x" * (4 << 30)
        case b"print":
            print("not an answer", flush=True)
        case b"pid":
            return str(os.getpid()).encode()
    return request


def cel(request: bytes) -> bytes:
    """Answer a CEL question about clusters with true; an expression that begins with `exit` ends the process."""
    question = msgspec.msgpack.decode(request, type=celexpr.Question)
    if question.expression.startswith("exit"):
        os._exit(3)
    return msgspec.msgpack.encode(celexpr.Answer(matches=[True] * len(question.clusters)))
