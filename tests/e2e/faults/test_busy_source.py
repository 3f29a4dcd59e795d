"""If a source's API server refuses the agent's writes about pods with 429 or 503, pods wait and run later."""

import asyncio
import base64
import contextlib
import datetime
import secrets
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from aiohttp import web

from agent.api.kinds import PODS, VALIDATING_WEBHOOKS
from hack.lab.sandbox.certificates import Authority
from tests.e2e import manifests
from tests.e2e.fleet import Fleet
from tests.e2e.laterwebhook import serving
from tests.e2e.manifests import DEPLOYMENTS
from tests.webhook.replica import host_facing

pytestmark = pytest.mark.full("Injects a fault besides those that promises 5 to 8 keep in the first tier.")

Raw = dict[str, Any]
FEW = 6
AGENT = "flotilla-agent"
"""Suffix of an agent's user name."""


class Gate:
    """Admission webhook that refuses and counts the agent's writes about pods while `code` is not 0."""

    def __init__(self) -> None:
        self.code = 0
        self.asked = False
        self.refused: set[str] = set()

    async def answer(self, request: web.Request) -> web.Response:
        """Answer an AdmissionReview."""
        asked = msgspec.json.decode(await request.read())
        what, self.asked = asked["request"], True
        response: Raw = {"uid": what["uid"], "allowed": True}
        if self.code and AGENT in what["userInfo"]["username"]:
            self.refused.add(what.get("subResource") or "pods")
            status = {"code": self.code, "message": "the policies of this cluster are busy"}
            response |= {"allowed": False, "status": status}
        return web.json_response({"apiVersion": asked["apiVersion"], "kind": asked["kind"], "response": response})


@contextlib.asynccontextmanager
async def gate(fleet: Fleet, namespace: str) -> AsyncIterator[Gate]:
    """Register a third-party webhook in the source for every change of a namespace's pods."""
    host, authority = host_facing(fleet.sandbox["cd"]), Authority("busy", datetime.datetime.now(datetime.UTC))
    made, app = Gate(), web.Application()
    app.router.add_post("/validate", made.answer)
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    name = f"busy-{namespace}"
    try:
        await web.TCPSite(runner, host, 0, ssl_context=serving(authority, host)).start()
        url = f"https://{host}:{runner.addresses[0][1]}/validate"
        bundle = base64.b64encode(authority.pair.certificate).decode()
        await fleet.source.create(VALIDATING_WEBHOOKS, configuration(name, namespace, {"url": url, "caBundle": bundle}))
        yield made
    finally:
        await fleet.source.delete(VALIDATING_WEBHOOKS, name)
        await runner.cleanup()


def configuration(name: str, namespace: str, place: Raw) -> Raw:
    """Return the ValidatingWebhookConfiguration."""
    subs = {"UPDATE": ["pods", "pods/status"], "CREATE": ["pods/binding"], "DELETE": ["pods"]}
    rules = [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": resources}
        for operation, resources in subs.items()
    ]
    webhook = {
        "name": f"{name}.flotilla.test",
        "rules": rules,
        "clientConfig": place,
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
    }
    return {"metadata": {"name": name}, "webhooks": [webhook]}


async def known(fleet: Fleet, namespace: str, busy: Gate) -> None:
    """Wait until the API server calls the webhook."""
    await fleet.source.create(PODS, manifests.pod("tried", elect=None), namespace)

    async def is_asked() -> bool:
        await fleet.source.patch(PODS, "tried", {"metadata": {"labels": {"tried": secrets.token_hex(3)}}}, namespace)
        return busy.asked

    await fleet.until("the webhook is asked", is_asked, about=namespace)
    await fleet.source.delete(PODS, "tried", namespace, grace=0)


@pytest.mark.parametrize("code", [pytest.param(429, marks=pytest.mark.seldom), 503])
async def test_a_source_that_refuses_what_its_agent_writes_runs_each_pod_once_when_it_does_not(
    fleet: Fleet, namespace: str, code: int
) -> None:
    async with gate(fleet, namespace) as busy:
        await known(fleet, namespace, busy)
        busy.code = code
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", FEW), namespace)
        await fleet.until("writes of the agent are refused", lambda: _is(bool(busy.refused)), about=namespace)
        await asyncio.sleep(3)
        busy.code = 0
        before = {pod["metadata"]["uid"] for pod in await fleet.running(namespace, "web", FEW)}
        await fleet.agree(namespace)
        busy.refused.clear()
        busy.code = code
        await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": FEW // 2}}, namespace)
        await fleet.until("its deletions are refused", lambda: _is(bool(busy.refused)), about=namespace)
        await asyncio.sleep(3)
        busy.code = 0
        assert {pod["metadata"]["uid"] for pod in await fleet.running(namespace, "web", FEW // 2)} < before
        await fleet.agree(namespace)
        fleet.census.check(namespace, at_most=FEW, may_end=True)


async def _is(value: bool) -> bool:
    return value
