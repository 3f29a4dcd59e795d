"""Channels carry bytes both ways with flow control, over TLS and plain TCP, alone and spliced."""

import asyncio
import contextlib
import os
import ssl
import tracemalloc

import pytest

from agent.kube.channel import Channel, ChannelClosed, TooLong
from agent.kube.splice import splice
from tests.kube.channels import client_tls, dialled, everything, listening, server_tls

BOTH = pytest.mark.parametrize("secure", [True, False], ids=["TLS", "plain"])


def contexts(secure: bool) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    return (server_tls(), client_tls()) if secure else (None, None)


async def echo(channel: Channel) -> None:
    with contextlib.suppress(ChannelClosed):
        while data := await channel.read(1 << 16):
            await channel.write(data)
        await channel.write(b"end")


@BOTH
async def test_bytes_go_both_ways_and_one_way_after_the_other_has_ended(secure: bool) -> None:
    server, client = contexts(secure)
    sent = os.urandom(3_000_000)
    async with listening(echo, server) as port:
        channel = await dialled(port, client)
        reading = asyncio.ensure_future(everything(channel))
        for start in range(0, len(sent), 100_000):
            await channel.write(sent[start : start + 100_000])
        channel.finish()
        assert await reading == sent + b"end"
        channel.close()


@BOTH
async def test_a_head_is_read_as_far_as_it_goes_and_no_longer_than_it_may_be(secure: bool) -> None:
    server, client = contexts(secure)
    async with listening(echo, server) as port:
        channel = await dialled(port, client)
        await channel.write(b"a" * 100_000 + b"|rest")
        assert await channel.read_until(b"|", 200_000) == b"a" * 100_000 + b"|"
        channel.finish()
        assert await everything(channel) == b"restend"
        channel.close()
        other = await dialled(port, client)
        await other.write(b"b" * 100_000)
        with pytest.raises(TooLong):
            await other.read_until(b"|", 1_000)
        other.close()


@BOTH
async def test_who_waits_learns_that_the_connection_is_lost(secure: bool) -> None:
    server, client = contexts(secure)

    async def drop(channel: Channel) -> None:
        channel.abort()

    async with listening(drop, server) as port:
        channel = await dialled(port, client)
        with pytest.raises(ChannelClosed):
            await channel.read_until(b"x", 10)
        await asyncio.wait_for(channel.gone(), 5)
        channel.close()


async def test_a_handshake_that_fails_says_why() -> None:
    async def never(channel: Channel) -> None:
        await channel.gone()

    async with listening(never) as port:
        channel = await dialled(port)
        context = client_tls()
        handshake = asyncio.ensure_future(channel.start_tls(context, hostname="localhost"))
        await asyncio.sleep(0)
        channel.abort()
        with pytest.raises(OSError, match="closed"):
            await handshake


async def test_a_server_that_nobody_vouches_for_is_refused() -> None:
    async def ignore(channel: Channel) -> None:
        await channel.gone()

    async def serve(channel: Channel) -> None:
        with contextlib.suppress(OSError):
            await channel.start_tls(server_tls(), server_side=True)
            await ignore(channel)

    async with listening(serve) as port:
        channel = await dialled(port)
        with pytest.raises(ssl.SSLCertVerificationError):
            await channel.start_tls(ssl.create_default_context(), hostname="localhost")
        channel.close()


class Middle:
    """Server that splices each client connection with an upstream server."""

    def __init__(self, upstream: int, *, idle: float = 60.0) -> None:
        self.upstream = upstream
        self.idle = idle
        self.ended = 0

    async def serve(self, channel: Channel) -> None:
        other = await dialled(self.upstream, client_tls())
        try:
            await splice(channel, other, idle=self.idle)
        finally:
            self.ended += 1


async def test_spliced_channels_carry_everything_both_ways_and_end_together() -> None:
    sent = os.urandom(5_000_000)
    async with listening(echo, server_tls()) as upstream:
        middle = Middle(upstream)
        async with listening(middle.serve, server_tls()) as port:
            channel = await dialled(port, client_tls())
            reading = asyncio.ensure_future(everything(channel))
            for start in range(0, len(sent), 100_000):
                await channel.write(sent[start : start + 100_000])
            channel.finish()
            assert await reading == sent + b"end"
            channel.close()
        assert middle.ended == 1


async def test_when_one_side_is_lost_the_other_is_told() -> None:
    told = asyncio.Event()

    async def wait(channel: Channel) -> None:
        await channel.gone()
        told.set()

    async with listening(wait, server_tls()) as upstream:
        middle = Middle(upstream)
        async with listening(middle.serve, server_tls()) as port:
            channel = await dialled(port, client_tls())
            await channel.write(b"hello")
            channel.abort()
            await asyncio.wait_for(told.wait(), 5)


async def test_channels_that_are_silent_for_too_long_are_closed() -> None:
    async def wait(channel: Channel) -> None:
        await channel.gone()

    async with listening(wait, server_tls()) as upstream:
        middle = Middle(upstream, idle=0.2)
        async with listening(middle.serve, server_tls()) as port:
            channel = await dialled(port, client_tls())
            assert await everything(channel) == b""
            channel.close()
        assert middle.ended == 1


@BOTH
async def test_who_writes_on_and_on_learns_at_once_that_the_connection_is_lost(secure: bool) -> None:
    """The writer learns it before the event loop reports the loss, since a busy writer never yields to the loop."""
    server, client = contexts(secure)
    async with listening(echo, server) as port:
        channel = await dialled(port, client)

        async def flood() -> None:
            for _ in range(1000):
                await channel.write(b"x" * 1000)

        channel.abort()
        with pytest.raises(ChannelClosed):
            await flood()


async def test_a_slow_reader_holds_back_the_sender_and_costs_no_memory() -> None:
    sent = 0
    block = bytes(65_536)

    async def flood(channel: Channel) -> None:
        nonlocal sent
        with contextlib.suppress(ChannelClosed):
            while True:
                await channel.write(block)
                sent += len(block)

    async with listening(flood, server_tls()) as upstream:
        middle = Middle(upstream)
        async with listening(middle.serve, server_tls()) as port:
            channel = await dialled(port, client_tls())
            tracemalloc.start()
            tracemalloc.reset_peak()
            last = -1
            while sent != last:
                last = sent
                await asyncio.sleep(0.3)
            # All of the data waits in kernel buffers.
            assert tracemalloc.get_traced_memory()[1] < 3_000_000
            taken = 0
            while taken < 64_000_000:
                taken += len(await channel.read(1 << 20))
            assert tracemalloc.get_traced_memory()[1] < 3_000_000
            tracemalloc.stop()
            channel.close()


async def test_a_reader_that_pauses_at_the_end_still_gets_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.kube.splice._HALF_CLOSED_SECONDS", 0.2)
    monkeypatch.setattr("agent.kube.splice._LOOK_SECONDS", 0.1)
    monkeypatch.setattr("agent.kube.channel._FLUSH_SECONDS", 0.2)
    sent = os.urandom(600_000)

    async def tell(channel: Channel) -> None:
        await channel.write(sent)

    async with listening(tell, server_tls()) as upstream:
        middle = Middle(upstream)
        async with listening(middle.serve, server_tls()) as port:
            channel = await dialled(port, client_tls())
            # The peer reads no more than its buffer holds but keeps writing, as SPDY does with its pings.
            await asyncio.sleep(1)
            assert middle.ended == 0
            channel.send(b"ping")
            await asyncio.sleep(0.2)
            assert await everything(channel) == sent
            channel.close()
