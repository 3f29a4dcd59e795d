"""Streams of an API server: a small server imitates rare answers."""

import contextlib
from collections.abc import AsyncIterator

import pytest

from agent.kube import http_headers
from agent.kube.channel import Channel, ChannelClosed
from agent.kube.config import Connection, StaticAuth
from agent.kube.errors import Forbidden, Unreachable, Unsent
from agent.kube.session import Session
from agent.kube.splice import splice
from agent.kube.streams import Answer, ask, connect
from tests.kube.channels import client_tls, dialled, everything, listening, server_tls
from tests.runtime.test_health import free_port

STATUS = b'{"kind":"Status","message":"no way","reason":"Forbidden","code":403}'
OK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Double:
    """Server that answers every request with the same bytes and records the received heads."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.heads: list[bytes] = []

    async def serve(self, channel: Channel) -> None:
        with contextlib.suppress(ChannelClosed):
            self.heads.append(await channel.read_until(http_headers.END, 1 << 20))
            await channel.write(self.answer)
            await channel.gone()


@contextlib.asynccontextmanager
async def session(port: int, path: str = "", **more: str) -> AsyncIterator[Session]:
    server = f"https://localhost:{port}{path}"
    connection = Connection(server, client_tls(), StaticAuth("Bearer secret"), server_name="localhost", **more)
    async with Session(connection, name="double") as made:
        yield made


async def asked(session: Session, path: str = "/api", timeout: float = 5.0) -> Answer:
    channel = await connect(session)
    query = (("command", "a b"), ("command", "c&d"))
    headers = [("Connection", "Upgrade")]
    return await ask(session, channel, "POST", path, query, headers, resource="pods/exec", timeout=timeout)


async def test_a_request_carries_credentials_query_and_headers_and_its_answer_is_left_unread() -> None:
    double = Double(OK + b"5\r\nhello")
    async with listening(double.serve, server_tls()) as port, session(port, "/k8s/clusters/c1") as made:
        answer = await asked(made, "/api/v1/namespaces/ns/pods/web/exec")
        assert answer.status == 200
        assert await answer.channel.read_until(b"hello", 100) == b"5\r\nhello"
        answer.channel.close()
        start, headers = http_headers.split(double.heads[0])
        path = "/k8s/clusters/c1/api/v1/namespaces/ns/pods/web/exec"
        assert start == f"POST {path}?command=a+b&command=c%26d HTTP/1.1"
        assert headers.get("Authorization") == "Bearer secret"
        assert headers.get("Host") == f"localhost:{port}"
        assert headers.tokens("Connection") == ["upgrade"]


@pytest.mark.parametrize(
    "answer",
    [
        b"Content-Length: %d\r\n\r\n%s" % (len(STATUS), STATUS),
        b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n5;x=y\r\n     \r\n0\r\n\r\n" % (len(STATUS), STATUS),
    ],
    ids=["with a length", "in chunks"],
)
async def test_an_error_is_read_from_the_status_object(answer: bytes) -> None:
    double = Double(b"HTTP/1.1 403 Forbidden\r\n" + answer)
    async with listening(double.serve, server_tls()) as port, session(port) as made:
        error = await (await asked(made)).error()
        assert isinstance(error, Forbidden)
        assert error.message == "no way"


@pytest.mark.parametrize(
    "answer",
    [
        b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n" + STATUS,
        b"Content-Length: -1\r\n\r\n" + STATUS,
        b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 60 + b"\r\n" + STATUS,
        b"Transfer-Encoding: chunked\r\n\r\n-5\r\n" + STATUS,
        b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s" % (len(STATUS) + 1, STATUS),
        b"Transfer-Encoding: chunked\r\n\r\n5",
    ],
    ids=[
        "long length",
        "negative length",
        "huge chunk",
        "negative chunk",
        "chunk without an end",
        "size without an end",
    ],
)
async def test_an_error_that_is_cut_off_or_makes_no_sense_is_its_status(answer: bytes) -> None:
    async def serve(channel: Channel) -> None:
        await channel.read_until(http_headers.END, 1 << 20)
        await channel.write(b"HTTP/1.1 403 Forbidden\r\n" + answer)
        channel.close()

    async with listening(serve, server_tls()) as port, session(port) as made:
        error = await (await asked(made)).error()
        assert isinstance(error, Forbidden)
        assert error.message == "HTTP status 403"


@pytest.mark.parametrize(
    "answer", [b"", b"SSH-2.0 hello\r\n\r\n", b"x" * 100_000, b"HTTP/1.1 200 OK\r\nbroken\r\n\r\n"]
)
async def test_what_is_no_answer_counts_as_unreachable(answer: bytes) -> None:
    async with listening(Double(answer).serve, server_tls()) as port, session(port) as made:
        with pytest.raises(Unreachable):
            await asked(made, timeout=0.3)


async def test_where_nobody_listens_or_speaks_tls_nothing_was_sent() -> None:
    async with session(free_port()) as made:
        with pytest.raises(Unsent):
            await connect(made)

    async def greet(channel: Channel) -> None:
        await channel.write(b"220 mail\r\n")
        await channel.gone()

    async with listening(greet) as port, session(port) as made:
        with pytest.raises(Unsent):
            await connect(made)


async def test_a_proxy_is_gone_through_and_one_that_refuses_is_named() -> None:
    targets: list[str] = []

    async def tunnel(channel: Channel) -> None:
        start, _ = http_headers.split(await channel.read_until(http_headers.END, 10_000))
        targets.append(start)
        if refuse:
            await channel.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            return
        other = await dialled(port)
        await channel.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await splice(channel, other, idle=10)

    refuse = False
    async with (
        listening(Double(OK).serve, server_tls()) as port,
        listening(tunnel) as proxy,
        session(port, proxy=f"http://127.0.0.1:{proxy}") as made,
    ):
        answer = await asked(made)
        assert answer.status == 200
        answer.channel.close()
        assert targets == [f"CONNECT localhost:{port} HTTP/1.1"]
        refuse = True
        with pytest.raises(Unsent, match="407"):
            await connect(made)


async def test_the_rest_of_an_answer_comes_until_it_ends() -> None:
    async def once(channel: Channel) -> None:
        await channel.read_until(http_headers.END, 10_000)
        await channel.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it")

    async with listening(once, server_tls()) as port, session(port) as made:
        answer = await asked(made)
        assert await everything(answer.channel) == b"all of it"
        answer.channel.close()
