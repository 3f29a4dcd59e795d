"""Intentional faults in addition to those of `Sandbox`: lost replies, compaction, commands inside a cut-off cluster."""

import asyncio
import contextlib
import datetime
import json
import ssl
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from agent.model import hostport
from hack.lab.sandbox.certificates import Authority
from hack.lab.sandbox.errors import SandboxError
from hack.lab.sandbox.plan import ClusterPlan

Drop = Callable[[str, str, bytes], bool]
"""Decides from method, path and body of a request whether to lose its reply."""

_HEAD_LIMIT = 1 << 20
_COPY_BYTES = 1 << 16
_POST_JSON = (
    "import sys, urllib.request as u;"
    " r = u.Request(sys.argv[1], sys.argv[2].encode(), {'Content-Type': 'application/json'});"
    " print(u.build_opener(u.ProxyHandler({})).open(r, timeout=30).read().decode())"
)


class LossyProxy:
    """Proxy in front of an API server that terminates TLS and loses the replies that `drop` chooses.

    The server has executed and answered such a request before the proxy closes the connection. `authority` is
    the CA certificate for kubeconfigs (PEM), `lost` counts the replies, `delay` delays each request by seconds.
    While `hears` is cleared the proxy forwards no requests, while `answers` is cleared no replies. Connections
    stay open, as on a link that drops packets. `drop` may clear both.
    """

    def __init__(self, server: str, server_authority: bytes, address: str, drop: Drop) -> None:
        self.lost = 0
        self.url = ""
        self.delay = 0.0
        self.hears, self.answers = asyncio.Event(), asyncio.Event()
        self.mend()
        self._host = urlsplit(server).hostname or ""
        self._port = urlsplit(server).port or 443
        self._address = address
        self._drop = drop
        self._upstream = ssl.create_default_context(cadata=server_authority.decode())
        authority = Authority("lossy-proxy", datetime.datetime.now(datetime.UTC))
        self.authority = authority.pair.certificate
        self._serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pair = authority.serving([address])
        with tempfile.NamedTemporaryFile() as file:
            file.write(pair.certificate + pair.key)
            file.flush()
            self._serving.load_cert_chain(file.name)
        self._listener: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving_tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._serve, self._address, 0, ssl=self._serving, limit=_HEAD_LIMIT)
        self.url = f"https://{hostport.join(self._address, self._listener.sockets[0].getsockname()[1])}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._listener is not None
        self._listener.close()
        self.mend()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*self._serving_tasks, return_exceptions=True)
        await self._listener.wait_closed()

    def mend(self) -> None:
        """Set `hears` and `answers`, so that delayed requests and replies continue."""
        self.hears.set()
        self.answers.set()

    async def _serve(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving_tasks.add(task)
        task.add_done_callback(self._serving_tasks.discard)
        self._writers.add(client_out)
        server_out: asyncio.StreamWriter | None = None
        try:
            server_in, server_out = await asyncio.open_connection(self._host, self._port, ssl=self._upstream)
            self._writers.add(server_out)
            await self._exchange(_Link(client_in, client_out, server_in, server_out, self.answers))
        except (OSError, asyncio.IncompleteReadError, ssl.SSLError):
            pass  # One side has closed the connection; the proxy closes the other one.
        finally:
            for writer in (client_out, server_out):
                if writer is not None:
                    writer.transport.abort()
                    self._writers.discard(writer)

    async def _exchange(self, link: "_Link") -> None:
        """Forward requests one by one: HTTP/1.1 clients wait for a reply before the next request."""
        copying = asyncio.ensure_future(link.copy_replies())
        try:
            while True:
                reading = asyncio.ensure_future(link.read_request())
                await asyncio.wait({reading, copying}, return_when=asyncio.FIRST_COMPLETED)
                if copying.done():
                    reading.cancel()
                    await asyncio.gather(reading, return_exceptions=True)
                    return
                method, path, head, body = await reading
                link.losing = self._drop(method, path, body)
                self.lost += link.losing
                await asyncio.sleep(self.delay)
                await self.hears.wait()
                if link.client_out.is_closing():
                    return
                link.server_out.write(head + body)
                await link.server_out.drain()
        finally:
            copying.cancel()
            await asyncio.gather(copying, return_exceptions=True)


class _Link:
    """A connection from a client, and the corresponding one to the server."""

    def __init__(
        self,
        client_in: asyncio.StreamReader,
        client_out: asyncio.StreamWriter,
        server_in: asyncio.StreamReader,
        server_out: asyncio.StreamWriter,
        answers: asyncio.Event,
    ) -> None:
        self.losing = False
        self.server_out = server_out
        self.client_out = client_out
        self._client_in = client_in
        self._server_in = server_in
        self._answers = answers

    async def read_request(self) -> tuple[str, str, bytes, bytes]:
        """Return method, path, head and body of the next request."""
        head = await self._client_in.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await self._client_in.readexactly(int(headers.get("content-length", "0")))
        method, path, _ = first.split(" ", 2)
        return method, path.partition("?")[0], head, body

    async def copy_replies(self) -> None:
        """Copy the server's replies until it closes the connection, or answers a request whose reply is to be lost."""
        with contextlib.suppress(OSError):
            while (data := await self._server_in.read(_COPY_BYTES)) and not self.losing:
                await self._answers.wait()
                self.client_out.write(data)
                await self.client_out.drain()


async def inside(cluster: ClusterPlan, *command: str) -> str:
    """Run a command in a cluster's network namespace, also while its link is cut. Return its output."""
    entered: Sequence[str] = command
    if cluster.namespace:
        entered = ["nsenter", f"--net=/var/run/netns/{cluster.namespace}", "--", *command]
    process = await asyncio.create_subprocess_exec(
        *entered,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    if process.returncode:
        shown = " ".join(command)
        raise SandboxError(f"cluster {cluster.name}: `{shown}` failed: {errors.decode(errors='replace').strip()}")
    return output.decode()


async def kubectl(cluster: ClusterPlan, program: str, directory: Path, *arguments: str) -> str:
    """Run kubectl with all rights inside a cluster. `directory` is the cluster's."""
    return await inside(cluster, program, f"--kubeconfig={directory / 'kubeconfig'}", *arguments)


async def compact(cluster: ClusterPlan, revision: int) -> None:
    """Remove all versions before a revision from etcd. Raises SandboxError."""
    await _ask_etcd(cluster, "kv/compaction", {"revision": str(revision), "physical": True})


async def out_of_space(cluster: ClusterPlan, *, alarm: bool) -> None:
    """Raise or disarm etcd's alarm NOSPACE, during which it accepts only reads and deletions. Raises SandboxError."""
    action = "ACTIVATE" if alarm else "DEACTIVATE"
    await _ask_etcd(cluster, "maintenance/alarm", {"action": action, "memberID": "0", "alarm": "NOSPACE"})


async def _ask_etcd(cluster: ClusterPlan, path: str, body: dict[str, Any]) -> None:
    url = f"http://{cluster.private_address}:{cluster.ports['etcd']}/v3/{path}"
    await inside(cluster, sys.executable, "-c", _POST_JSON, url, json.dumps(body))
