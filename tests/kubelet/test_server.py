"""Connections to the kubelet API: accepted clients, and faults that the server survives."""

import asyncio
import contextlib
import datetime
import logging
import os
import random
import socket

import pytest

from agent.kube import http_headers
from agent.kube.channel import Channel, ChannelClosed
from agent.kubelet import server as module
from hack.lab.sandbox.certificates import Authority
from tests.kube.channels import client_tls, dialled, everything
from tests.kubelet.serving import Serving, anybody, new_tls, say, serving
from tests.waiting import until

HEALTHZ = b"GET /healthz HTTP/1.1\r\nHost: node\r\nAuthorization: Bearer good\r\n\r\n"
OK = (200, b"node healthz")


async def still_serves(served: Serving) -> None:
    assert await asyncio.wait_for(served.get("/healthz", token="good"), 10) == OK


async def test_nobody_is_let_in_without_saying_who_it_is() -> None:
    async with serving() as served:
        for path in ("/healthz", "/pods", "/metrics", "/nothing", "/exec/a/b/c?output=1"):
            assert await served.get(path) == (401, b"Unauthorized")
        assert (await served.get("/pods", token="bad"))[0] == 401
        assert served.asked == []


async def test_a_token_or_a_certificate_lets_in() -> None:
    async with serving() as served:
        assert await served.get("/healthz", token="good") == OK
        assert await served.get("/healthz", certificate=True) == OK


async def test_a_certificate_of_another_authority_is_refused_in_the_handshake() -> None:
    other = Authority("other", datetime.datetime.now(datetime.UTC)).client("kubelet-client", "system:masters")
    tls = client_tls(other)
    tls.check_hostname, tls.verify_mode = False, anybody().verify_mode
    async with serving() as served:
        with pytest.raises(OSError):  # noqa: PT011 - an alert, or the end of the connection
            await say(await dialled(served.port, tls), HEALTHZ)
        await still_serves(served)


async def test_who_has_no_right_gets_403_that_names_it() -> None:
    async with serving() as served:
        channel = await served.connect(certificate=True)
        ask = b"POST /exec/a/b/c?output=1 HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
        status, body = await say(channel, ask)
        channel.close()
        assert status == 403
        assert b"user=kubelet-client, verb=create, resource=nodes, subresource(s)=['proxy']" in body
        assert served.asked == []


async def test_a_connection_is_kept_for_further_requests_unless_one_fails() -> None:
    async with serving() as served:
        channel = await served.connect()
        assert await say(channel, HEALTHZ) == OK
        assert await say(channel, HEALTHZ) == OK
        assert (await say(channel, HEALTHZ.replace(b"healthz", b"unknown")))[0] == 404
        assert await everything(channel) == b""
        channel.close()


async def test_an_error_of_ours_ends_one_connection_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "agent.kubelet.server")
    async with serving() as served:
        with pytest.raises(ChannelClosed):
            await served.get("/metrics", token="good")
        await still_serves(served)


async def test_another_certificate_is_for_new_connections_and_old_ones_go_on() -> None:
    async with serving() as served:
        old = await served.connect()
        assert await say(old, HEALTHZ) == OK
        served.server.tls = new_tls()
        await still_serves(served)
        assert await say(old, HEALTHZ) == OK
        old.close()


async def test_a_head_may_be_a_mebibyte_long_for_who_has_a_certificate_and_not_for_others() -> None:
    long = [("Host", "node"), ("X-Long", "x" * 900_000)]
    async with serving() as served:
        for certificate, status in ((True, 200), (False, 431)):
            channel = await served.connect(certificate)
            assert (await say(channel, http_headers.render("GET /healthz HTTP/1.1", long)))[0] == status
            channel.close()
        channel = await served.connect(certificate=True)
        assert (await say(channel, b"GET /healthz HTTP/1.1\r\nX-Long: " + b"x" * 1_100_000))[0] == 431
        channel.close()
        await still_serves(served)


JUNK = (
    b"\r\n\r\n",
    b"GET\r\n\r\n",
    b"\x16\x03\x01\x00\x05hello\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /../../etc/passwd HTTP/1.1\r\n\r\n",
    b"GET /%00 HTTP/1.1\r\n\r\n",
    b"GET /pods HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\n",
    b"POST /exec/a/b/c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n",
    b"GET /pods HTTP/1.1\r\n: x\r\n\r\n",
    b"GET /pods?" + b"a&" * 30_000 + b" HTTP/1.1\r\nAuthorization: Bearer good\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\n\r\n",
)


async def test_malformed_requests_are_refused_and_leave_it_serving() -> None:
    chance = random.Random(7)
    async with serving() as served:
        for junk in (*JUNK, *(bytes(chance.randrange(256) for _ in range(200)) + http_headers.END for _ in range(20))):
            channel = await served.connect()
            status, _ = await say(channel, junk)
            assert 400 <= status < 500
            channel.close()
        assert served.asked == []
        await still_serves(served)


async def test_what_is_no_tls_leaves_it_serving() -> None:
    async with serving() as served:
        for junk in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(5_000), b"\x16\x03\x01" + os.urandom(100), b""):
            channel = await dialled(served.port)
            channel.send(junk)
            channel.finish()
            await everything(channel)
            channel.close()
        await still_serves(served)


async def test_a_thousand_half_open_connections_leave_it_serving_and_the_oldest_are_cut_off() -> None:
    async with serving() as served:
        quiet: list[Channel] = []
        for _ in range(20):
            quiet += await asyncio.gather(*(dialled(served.port) for _ in range(50)))
        await still_serves(served)
        assert sum(not channel.ended for channel in quiet) <= module.UNKNOWN_LIMIT
        assert not quiet[-1].ended
        for channel in quiet:
            channel.abort()


async def test_who_has_been_let_in_is_not_cut_off_for_others_that_come() -> None:
    async with serving() as served:
        known = await served.connect()
        assert await say(known, HEALTHZ) == OK
        quiet = [await dialled(served.port) for _ in range(module.UNKNOWN_LIMIT + 20)]
        assert await say(known, HEALTHZ) == OK
        for channel in (known, *quiet):
            channel.abort()


async def test_who_does_not_finish_a_request_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEAD_SECONDS", 0.3)
    async with serving() as served:
        known = await served.connect()
        monkeypatch.setattr(module, "HANDSHAKE_SECONDS", 0.3)
        for channel in (known, await dialled(served.port)):
            with contextlib.suppress(OSError):
                for byte in HEALTHZ[:40]:
                    await channel.write(bytes([byte]))
                    await asyncio.sleep(0.02)
            await asyncio.wait_for(channel.gone(), 5)
            channel.close()
        monkeypatch.undo()
        await still_serves(served)


async def test_an_upgrade_that_is_broken_off_leaves_nothing() -> None:
    async with serving() as served:
        before = len(asyncio.all_tasks())
        for _ in range(20):
            channel = await served.connect(certificate=True)
            await channel.write(b"GET /exec/a/b/c?output=1 HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n")
            channel.abort()
        await still_serves(served)
        await until(lambda: len(asyncio.all_tasks()) <= before)


async def test_a_connection_that_comes_while_the_server_ends_is_cut_off() -> None:
    async with serving() as served:
        channel = served.server.accept("node")()
        accepted, channel._accepted = channel._accepted, None
        assert accepted is not None
        ours, theirs = socket.socketpair()
        with theirs:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: channel, ours)
            served.running.cancel()
            accepted(channel)
            await asyncio.gather(served.running, return_exceptions=True)
            await until(lambda: channel.ended)
