"""/metrics over HTTPS for users with the right to get that path, as Kubernetes' own components serve it.

The process signs its own certificate: a token identifies the client, and the address identifies the server.
"""

import logging
import ssl

from aiohttp import web

from agent.base import certificates
from agent.kube.client import Client
from agent.kube.errors import KubeError
from agent.kube.reviews import may_get
from agent.kube.tokens import bearer, user_of
from agent.runtime.exposition import EXPOSITION
from agent.runtime.health import serve

_PATH = "/metrics"
_NAME = "flotilla-metrics"
_log = logging.getLogger(__name__)


class GuardedMetrics:
    """Serves the metrics of this process to whom its API server lets read them."""

    def __init__(self, address: str, client: Client) -> None:
        self._address = address
        self._client = client

    async def serve(self) -> None:
        """Serve until cancelled. Raises OSError when the port is taken."""
        app = web.Application()
        app.router.add_get(_PATH, self._answer)
        await serve(app, self._address, "metrics", _tls())

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        token = bearer(request.headers.get("Authorization", ""))
        if not token:
            return web.Response(status=401, text="send a bearer token\n", headers={"WWW-Authenticate": "Bearer"})
        return await EXPOSITION.answer_unless(request, lambda: self._refusal(token))

    async def _refusal(self, token: str) -> web.Response | None:
        try:
            return await self._refusal_by_review(token)
        except KubeError as error:
            _log.warning("who asks for metrics cannot be found out: %s", error)
            return web.Response(status=503, text="who asks cannot be found out: see the log\n")

    async def _refusal_by_review(self, token: str) -> web.Response | None:
        user = await user_of(self._client, token)
        if user is None:
            return web.Response(status=401, text="the token is nobody's\n", headers={"WWW-Authenticate": "Bearer"})
        if await may_get(self._client, user.told, _PATH):
            return None
        return web.Response(status=403, text=f"{user.name} may not get the non-resource URL {_PATH}\n")


def _tls() -> ssl.SSLContext:
    shown = certificates.self_signed(certificates.new_key(), _NAME, "", [_NAME])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    shown.load(context)
    return context
