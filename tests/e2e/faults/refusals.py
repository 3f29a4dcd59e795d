"""Admission webhooks of other software that make a cluster refuse creations but not reads: unreachable, or too
busy."""

import base64
import contextlib
import datetime
import secrets
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from aiohttp import web

from agent.api.kinds import VALIDATING_WEBHOOKS, Kind
from agent.api.names import LABEL_PARENT_UID
from agent.kube.client import Client, encode
from agent.kube.errors import NotFound, ServerError, StatusError, TooManyRequests
from hack.lab.sandbox import Cluster
from hack.lab.sandbox.certificates import Authority
from tests.e2e.laterwebhook import serving
from tests.waiting import until
from tests.webhook.replica import host_facing

Raw = dict[str, Any]

_NOWHERE = {"url": "https://127.0.0.1:1/validate"}
"""A URL at which no process listens."""


@contextlib.asynccontextmanager
async def dead_webhook(client: Client, kind: Kind, namespace: str) -> AsyncIterator[str]:
    """Register an unreachable webhook for objects created in a namespace; yield its name."""
    async with _registered(client, kind, namespace, _NOWHERE, ServerError) as name:
        yield name


@contextlib.asynccontextmanager
async def busy_webhook(
    cluster: Cluster, client: Client, kind: Kind, namespace: str, code: int = 429
) -> AsyncIterator[str]:
    """Serve a webhook that refuses, so that the API server answers 429 (or `code` 503); yield its message."""
    words = "the policies of this cluster are busy"
    error = TooManyRequests if code == 429 else ServerError
    host = host_facing(cluster)
    authority = Authority("busy", datetime.datetime.now(datetime.UTC))

    async def answer(request: web.Request) -> web.Response:
        asked = msgspec.json.decode(await request.read())
        status = {"code": code, "reason": error.__name__, "message": words}
        response = {"uid": asked["request"]["uid"], "allowed": False, "status": status}
        return web.json_response({"apiVersion": asked["apiVersion"], "kind": asked["kind"], "response": response})

    app = web.Application()
    app.router.add_post("/validate", answer)
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, 0, ssl_context=serving(authority, host)).start()
        bundle = base64.b64encode(authority.pair.certificate).decode()
        place = {"url": f"https://{host}:{runner.addresses[0][1]}/validate", "caBundle": bundle}
        async with _registered(client, kind, namespace, place, error):
            yield words
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def _registered(
    client: Client, kind: Kind, namespace: str, place: Raw, error: type[StatusError]
) -> AsyncIterator[str]:
    name = f"busy-{secrets.token_hex(3)}"
    rule = {
        "apiGroups": [kind.group],
        "apiVersions": [kind.version],
        "operations": ["CREATE"],
        "resources": [kind.plural],
    }
    webhook = {
        "name": f"{name}.flotilla.test",
        "rules": [rule],
        "clientConfig": place,
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
    }
    await client.create(VALIDATING_WEBHOOKS, {"metadata": {"name": name}, "webhooks": [webhook]})
    try:
        await in_force(client, kind, namespace, error)
        yield name
    finally:
        with contextlib.suppress(NotFound):
            await client.delete(VALIDATING_WEBHOOKS, name)
        await in_force(client, kind, namespace, None)


async def in_force(client: Client, kind: Kind, namespace: str, error: type[StatusError] | None) -> None:
    """Wait until creating an object fails with this error, or succeeds if None: API servers load webhooks with
    a delay."""
    tried: Raw = {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": "tried", "namespace": namespace, "labels": {LABEL_PARENT_UID: "none"}},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    }

    async def is_so() -> bool:
        path = kind.path(namespace)
        try:
            await client.session.request("POST", path, params={"dryRun": "All"}, body=encode(tried))
        except StatusError as found:
            return error is not None and isinstance(found, error)
        return error is None

    await until(is_so, what=f"{kind.plural} are refused: {error.__name__ if error else 'no'}")
