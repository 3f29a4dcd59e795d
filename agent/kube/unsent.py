"""What a peer has not taken yet: what waits in the process, and what waits in the kernel."""

import asyncio
import fcntl
import struct
import termios

_INT = struct.Struct("i")


def unsent(transport: asyncio.WriteTransport) -> int:
    """Bytes that were written to an open connection and that the peer's kernel has not acknowledged."""
    number = transport.get_extra_info("socket").fileno()
    (waiting,) = _INT.unpack(fcntl.ioctl(number, termios.TIOCOUTQ, bytes(_INT.size)))
    return int(waiting) + transport.get_write_buffer_size()
