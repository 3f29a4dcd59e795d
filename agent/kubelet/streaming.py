"""Logs and upgraded connections: the request is repeated at the target's API server, and bytes are spliced.

This module parses no streaming protocol, and buffers only data that a side is slow to take.
"""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

from agent.api.kinds import PODS
from agent.kube import http_headers
from agent.kube.channel import Channel, ChannelClosed
from agent.kube.errors import KubeError
from agent.kube.http_headers import Headers
from agent.kube.splice import splice
from agent.kube.streams import Answer, Query
from agent.kubelet.pods import Delegate, Pods, refusal
from agent.kubelet.requests import Request, Unacceptable
from agent.kubelet.routes import Logs, Upgrade

T = TypeVar("T")

UPGRADE_SECONDS = 60.0
"""Seconds that the target may take to upgrade: its own API server waits 30 s for a kubelet."""

_TO_TARGET = (
    "Connection",
    "Upgrade",
    "X-Stream-Protocol-Version",
    "Sec-WebSocket-Key",
    "Sec-WebSocket-Version",
    "Sec-WebSocket-Protocol",
    "Sec-WebSocket-Extensions",
    "Origin",
)
_TO_CLIENT = (
    "Connection",
    "Upgrade",
    "X-Stream-Protocol-Version",
    "Sec-WebSocket-Accept",
    "Sec-WebSocket-Protocol",
    "Sec-WebSocket-Extensions",
    "Content-Type",
    "Content-Length",
    "Transfer-Encoding",
)


class Streaming:
    """Serves what streams. A connection on which it has answered is closed afterwards."""

    def __init__(self, pods: Pods, idle: float) -> None:
        self._pods = pods
        self._idle = idle

    async def logs(self, client: Channel, node: str, wanted: Logs) -> None:
        """Send the log of a container. Raises Unacceptable before anything is sent, ChannelClosed."""
        delegate = await self._pods.find(node, (wanted.namespace, wanted.pod), wanted.uid)
        query = (("container", wanted.container), *wanted.query)
        headers = [("Connection", "close"), ("Accept-Encoding", "identity")]
        # A container without output gets no answer yet: only the client's patience limits the wait.
        asked = self._ask(delegate, wanted.container, "GET", "log", query, headers, None)
        answer = await while_there(client, asked)
        if answer.status != 200:
            raise Unacceptable(*_refused(delegate, await answer.error(), "get", "pods/log"))
        await self._splice(client, answer, "HTTP/1.1 200 OK", Headers([("Connection", "close")]))

    async def upgrade(self, client: Channel, node: str, wanted: Upgrade, request: Request) -> None:
        """Connect the client with a stream of a pod. Raises like `logs`."""
        delegate = await self._pods.find(node, (wanted.namespace, wanted.pod), wanted.uid)
        query = ((("container", wanted.container),) if wanted.container else ()) + tuple(wanted.query)
        headers = list(request.headers.only(_TO_TARGET))
        if request.method == "POST":
            headers.append(("Content-Length", "0"))
        asked = self._ask(delegate, wanted.container, request.method, wanted.kind, query, headers, UPGRADE_SECONDS)
        answer = await while_there(client, asked)
        if answer.status != 101:
            # For GET, older API servers check the verb `get`.
            verb = "create" if request.method == "POST" else "get or create"
            raise Unacceptable(*_refused(delegate, await answer.error(), verb, f"pods/{wanted.kind}"))
        await self._splice(client, answer, "HTTP/1.1 101 Switching Protocols", Headers())

    async def _ask(
        self,
        delegate: Delegate,
        container: str,
        method: str,
        sub: str,
        query: Query,
        headers: list[tuple[str, str]],
        timeout: float | None,
    ) -> Answer:
        """Return the target's answer; retry once with a renewed token."""
        channel = await self._connected(delegate, self._pods.check(delegate, container))
        path = PODS.path(delegate.namespace, delegate.name, sub)
        port = delegate.target.port
        resource = f"pods/{sub}"
        try:
            answer = await port.ask(channel, method, path, query, headers, resource=resource, timeout=timeout)
            if answer.status == 401:
                answer.channel.abort()
                channel = await port.connect()
                answer = await port.ask(channel, method, path, query, headers, resource=resource, timeout=timeout)
        except KubeError as error:
            delegate.target.probe_now()
            raise Unacceptable(*_refused(delegate, error, "", resource)) from error
        return answer

    async def _connected(self, delegate: Delegate, check: Coroutine[Any, Any, None]) -> Channel:
        """Return a connection to the target, made while the pod is being checked."""
        connecting = asyncio.ensure_future(delegate.target.port.connect())
        try:
            await check
            return await connecting
        except KubeError as error:
            delegate.target.probe_now()
            raise Unacceptable(*_refused(delegate, error, "", "")) from error
        except BaseException:
            await _discard(connecting)
            raise

    async def _splice(self, client: Channel, answer: Answer, start: str, own: Headers) -> None:
        headers = [*own, *(pair for pair in answer.headers.only(_TO_CLIENT) if not own.get(pair[0]))]
        try:
            await client.write(http_headers.render(start, headers))
            await splice(client, answer.channel, idle=self._idle)
        finally:
            answer.channel.close()
            client.close()


def _refused(delegate: Delegate, error: KubeError, verb: str, resource: str) -> tuple[int, str]:
    return refusal(delegate.target, delegate.namespace, error, verb, resource)


async def while_there(client: Channel, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine while the client is connected. Raises ChannelClosed when it disconnects."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(client.gone())
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ChannelClosed("the client has gone")
        return await task
    finally:
        gone.cancel()
        if not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Unacceptable):
                await task


async def _discard(connecting: "asyncio.Future[Channel]") -> None:
    connecting.cancel()
    try:
        (await connecting).abort()
    except (asyncio.CancelledError, KubeError):
        return
