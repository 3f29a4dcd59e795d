"""A third-party mutating webhook that API servers call after the agent's, such as a mesh's injector."""

import base64
import contextlib
import datetime
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
from aiohttp import web

from agent.api.kinds import MUTATING_WEBHOOKS, PODS
from agent.kube.client import Client, encode
from agent.kube.errors import NotFound
from agent.model.diff import json_patch
from hack.lab.sandbox.certificates import Authority
from tests.e2e import manifests
from tests.e2e.fleet import Fleet
from tests.webhook.replica import host_facing

Raw = dict[str, Any]


@contextlib.asynccontextmanager
async def later_webhook(
    fleet: Fleet, namespace: str, mutate: Callable[[Raw], Raw], cluster: str = "", *, updates: bool = False
) -> AsyncIterator[None]:
    """Serve a webhook that replaces new pods of a namespace by the result of `mutate`.

    `cluster` is the source if empty. With `updates`, changed pods are mutated as well.
    """
    cluster = cluster or fleet.names[0]
    client = fleet.clients[cluster]
    host = host_facing(fleet.sandbox[cluster])
    authority = Authority("later", datetime.datetime.now(datetime.UTC))

    async def answer(request: web.Request) -> web.Response:
        asked = msgspec.json.decode(await request.read())
        pod = asked["request"]["object"]
        patch = base64.b64encode(msgspec.json.encode(json_patch(pod, mutate(pod)))).decode()
        response = {"uid": asked["request"]["uid"], "allowed": True, "patchType": "JSONPatch", "patch": patch}
        return web.json_response({"apiVersion": asked["apiVersion"], "kind": asked["kind"], "response": response})

    app = web.Application()
    app.router.add_post("/mutate", answer)
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    # API servers call webhooks in alphabetical order; the agent's is named multicluster-scheduler.
    name = f"zz-later-{namespace}"
    try:
        await web.TCPSite(runner, host, 0, ssl_context=serving(authority, host)).start()
        url = f"https://{host}:{runner.addresses[0][1]}/mutate"
        operations = ["CREATE", *(["UPDATE"] if updates else [])]
        await client.create(MUTATING_WEBHOOKS, _configuration(name, namespace, url, authority, operations))
        await fleet.until("the later webhook is asked", lambda: _is_asked(client, namespace, mutate), about=namespace)
        yield
    finally:
        with contextlib.suppress(NotFound):
            await client.delete(MUTATING_WEBHOOKS, name)
        await runner.cleanup()


def _configuration(name: str, namespace: str, url: str, authority: Authority, operations: Sequence[str]) -> Raw:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": operations, "resources": ["pods"]}
    return {
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": f"{name}.example.com",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": url, "caBundle": base64.b64encode(authority.pair.certificate).decode()},
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "rules": [rule],
                "sideEffects": "None",
            }
        ],
    }


async def _is_asked(client: Client, namespace: str, mutate: Callable[[Raw], Raw]) -> bool:
    path, body = PODS.path(namespace), encode(manifests.pod("tried", elect=None))
    answer = await client.session.request("POST", path, params={"dryRun": "All"}, body=body)
    made = msgspec.json.decode(answer)
    return bool(made["spec"]["containers"] == mutate(made)["spec"]["containers"])


def serving(authority: Authority, host: str) -> ssl.SSLContext:
    """Return the TLS context of a webhook in this process."""
    pair = authority.serving([host])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(pair.certificate + pair.key)
        file.flush()
        context.load_cert_chain(file.name)
    return context
