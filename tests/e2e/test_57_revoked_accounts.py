"""Promise 57: after a Source's account is deleted, its pods get no token of the recreated account (real nodes)."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, PODS, SECRETS, SERVICE_ACCOUNTS, SOURCES
from agent.kube.client import Client
from agent.kube.errors import Forbidden, NotFound, Unauthorized
from agent.targets.source.decide import Roles, wanted_bindings
from hack.lab.sandbox.objects import connect
from tests.e2e import manifests
from tests.e2e.debugging import IMAGE
from tests.e2e.fleet import Fleet, condition
from tests.e2e.test_57_roles import client_of

pytestmark = [pytest.mark.realnodes]

Raw = dict[str, Any]

TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
ROLES = Roles("multicluster-scheduler-source", "multicluster-scheduler-cluster-summary-viewer")


async def bound_before(fleet: Fleet, namespace: str) -> None:
    """Create in `us` what an older agent left: a bound Source, and a delegate that runs as its account."""
    us = fleet.clients["us"]
    await us.create(SERVICE_ACCOUNTS, {"metadata": {"name": "cd"}}, namespace)
    container = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sleep", "100000"]}
    spec = {"serviceAccountName": "cd", "containers": [container], "terminationGracePeriodSeconds": 3600}
    spy = manifests.ours("PodChaperon", "spy", namespace, spec)
    spy["metadata"]["labels"] = {names.LABEL_PARENT_UID: f"{namespace}-spy"}
    await us.create(CHAPERONS, spy)

    async def runs() -> bool:
        return bool((await us.get(PODS, "spy", namespace))["status"].get("phase") == "Running")

    await fleet.until("the pod runs", runs, about=namespace, seconds=120)
    made = await us.create(SOURCES, manifests.ours("Source", "cd", namespace, {"serviceAccountName": "cd"}))
    for (kind, _), manifest in wanted_bindings((namespace, "cd"), made, ROLES).items():
        await us.create(kind, manifest)


async def ready(fleet: Fleet, namespace: str) -> None:
    """Wait until the Source is Ready with reason Bound."""

    async def bound() -> bool:
        found = condition(await fleet.clients["us"].get(SOURCES, "cd", namespace), "Ready")
        return found.get("reason") == "Bound"

    await fleet.until("the Source has its rights", bound, about=namespace)


@contextlib.asynccontextmanager
async def without_remains(fleet: Fleet) -> AsyncIterator[str]:
    """Yield a namespace without targets. Afterwards delete the test's objects from `us`, even if the test
    failed."""
    us = fleet.clients["us"]
    async with fleet.namespace(()) as namespace:
        try:
            yield namespace
        finally:
            for kind, name in ((CHAPERONS, "spy"), (SOURCES, "cd")):
                with contextlib.suppress(NotFound):
                    await us.delete(kind, name, namespace)


async def token_for(kubelet: Client, namespace: str, pod: Raw) -> str:
    """Request a new token for a pod's volume, as the kubelet does."""
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    request = {"metadata": {"name": "cd"}, "spec": {"boundObjectRef": bound, "expirationSeconds": 3607}}
    return str((await kubelet.create(SERVICE_ACCOUNTS, request, namespace, sub="token"))["status"]["token"])


async def test_a_pod_that_runs_as_a_sources_account_gets_no_token_of_the_next_one(fleet: Fleet) -> None:
    us = fleet.clients["us"]
    kubelet = connect(fleet.sandbox.directory / "us" / "pki" / "kubelet.kubeconfig", name="kubelet")
    async with kubelet.session, without_remains(fleet) as namespace:
        await bound_before(fleet, namespace)
        await ready(fleet, namespace)
        pod = await us.get(PODS, "spy", namespace)
        mounted = await fleet.kubectl("us", "-n", namespace, "exec", "spy", "--", "cat", TOKEN)
        before = (await us.get(SERVICE_ACCOUNTS, "cd", namespace))["metadata"]["uid"]
        stolen = [
            client_of(fleet, "us", f"{namespace}-{number}", token)
            for number, token in enumerate((mounted, await token_for(kubelet, namespace, pod)))
        ]
        try:
            for each in stolen:
                await each.list(SECRETS, namespace)
            await fleet.kubectl("us", "-n", namespace, "delete", "serviceaccount", "cd")

            async def is_new() -> bool:
                return bool((await us.get(SERVICE_ACCOUNTS, "cd", namespace))["metadata"]["uid"] != before)

            await fleet.until("there is an account again", is_new, about=namespace, seconds=120)
            with pytest.raises(NotFound):
                await us.get(PODS, "spy", namespace)
            with pytest.raises((Forbidden, NotFound)):
                await token_for(kubelet, namespace, pod)
            for each in stolen:

                async def is_void(each: Client = each) -> bool:
                    try:
                        await each.list(SECRETS, namespace)
                    except Unauthorized:
                        return True
                    return False

                await fleet.until("the token is void", is_void, about=namespace)
        finally:
            for each in stolen:
                await each.session.close()
        await ready(fleet, namespace)

        async def refused() -> bool:
            found = condition(await us.get(CHAPERONS, "spy", namespace), "PodScheduled")
            return "the account by which its source acts" in found.get("message", "")

        await fleet.until("it gets no other pod", refused, about=namespace)
