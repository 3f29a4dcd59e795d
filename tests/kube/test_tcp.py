"""Detection of unreachable peers: within 15 s for requests, within a minute for streams."""

import socket

import pytest

from agent.kube import tcp
from agent.kube.tcp import REQUESTS, STREAMS, Patience
from tests.kube.channels import Channel, dialled, listening


def options(made: socket.socket) -> Patience:
    """Return the keepalive options of a socket."""
    assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT)
    idle, interval, probes, unacknowledged = (made.getsockopt(socket.IPPROTO_TCP, name) for name in names)
    return Patience(idle, interval, probes, unacknowledged // 1000)


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["IPv4", "IPv6"])
def test_a_socket_of_requests_is_given_up_within_15_s(family: socket.AddressFamily) -> None:
    with tcp.connected_socket((family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("::1", 1))) as made:
        found = options(made)
    assert found == REQUESTS
    assert found.idle + found.interval * found.probes <= found.unacknowledged <= 15


async def test_a_stream_is_given_up_within_a_minute_and_never_for_a_reader_that_pauses() -> None:
    found: list[Patience] = []

    async def serve(channel: Channel) -> None:
        assert channel._transport is not None
        found.append(options(channel._transport.get_extra_info("socket")._sock))

    async with listening(serve) as port:
        channel = await dialled(port)
        assert channel._transport is not None
        found.append(options(channel._transport.get_extra_info("socket")._sock))
        await channel.gone()
        channel.close()
    assert found == [STREAMS, STREAMS]
    assert STREAMS.idle + STREAMS.interval * STREAMS.probes <= 60
    assert STREAMS.unacknowledged == 0


def test_what_a_system_does_not_know_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_IDLE", "_UNACKNOWLEDGED"):
        monkeypatch.setattr(tcp, name, None)
    with tcp.connected_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 1))) as made:
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


def test_a_socket_that_is_not_of_tcp_stays_as_it_is() -> None:
    one, other = socket.socketpair()
    with one, other:
        tcp.keep_alive(one, REQUESTS)
        assert one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 0
