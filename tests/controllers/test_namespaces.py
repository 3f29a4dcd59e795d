"""A namespace that is not enabled sends nothing new to targets, whatever its users write; existing copies stay."""

from typing import Any

import pytest

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.kinds import (
    CHAPERONS,
    CONFIGMAPS,
    NAMESPACES,
    NETWORK_POLICIES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from agent.dependencies.follow import FollowController
from agent.dependencies.rules import NetworkPolicyController
from agent.dependencies.source_api import SourceApiController
from agent.model.delegatepod import chaperon
from agent.model.proxypod import proxy_pod
from agent.model.sourceapi import secret_name
from agent.services.copies import GlobalServices
from agent.services.reroute import ServiceRerouteController
from tests.controllers.pair import Pair
from tests.controllers.proxies import elected, enable
from tests.controllers.target_links import add, kubeconfig
from tests.waiting import gone, until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]

CONTROLLERS = (FollowController, SourceApiController, GlobalServices, ServiceRerouteController, NetworkPolicyController)
ASKS = {names.SHORT_PREFIX + key: "true" for key in (names.SOURCE_API, names.FOLLOW_POLICIES)}
COPIED = (CONFIGMAPS, SECRETS, SERVICES, NETWORK_POLICIES)


def volume(name: str) -> Raw:
    return {"name": name, "configMap": {"name": name}}


def service(name: str, **annotations: str) -> Raw:
    metadata = {"name": name, "annotations": {names.SHORT_PREFIX + key: value for key, value in annotations.items()}}
    return {"metadata": metadata, "spec": {"selector": {"app": name}, "ports": [{"port": 80}]}}


async def there(pair: Pair) -> set[str]:
    """Return kind and name of our objects in the target."""
    found = set()
    for kind in COPIED:
        for each in await pair.there.list(kind, pair.namespace, labels=names.LABEL_PARENT_UID):
            found.add(f"{kind.plural}/{each['metadata']['name']}")
    return found


async def handwritten(pair: Pair) -> str:
    """Create proxy pods and their dependencies as any user may write them; return the name of a token's Secret."""
    await add(pair.here, pair.namespace, "eu", kubeconfig(pair.clusters[1]))
    for name in ("words", "bound"):
        await pair.create(CONFIGMAPS, name, data={"a": "1"})
    claimed = await pair.pod("web", annotations=ASKS, volumes=[volume("words")])
    bound = proxy_pod(elected("bound", pair.namespace, volumes=[volume("bound")]), [])
    bound["spec"]["nodeName"] = names.virtual_node(pair.namespace, "eu")
    await pair.here.create(PODS, bound)
    await pair.create(NETWORK_POLICIES, "web", spec={"podSelector": {"matchLabels": {"app": "web"}}})
    await pair.here.create(SERVICES, service("web"), pair.namespace)
    await pair.here.create(SERVICES, service("api", **{"global": "true"}), pair.namespace)
    return secret_name(claimed["metadata"])


async def test_what_handwritten_pods_name_stays_here_until_their_namespace_is_enabled(pair: Pair) -> None:
    await enable(pair.here, pair.namespace, None)
    token = await handwritten(pair)
    command = f"kubectl label namespace {pair.namespace} multicluster-scheduler=enabled"

    async def told() -> bool:
        status = (await pair.here.get(SERVICES, "api", pair.namespace))["status"]
        return command in (find_condition(status.get("conditions"), "multicluster/Shared") or {}).get("message", "")

    async with pair.at_work(*CONTROLLERS):
        await until(told)
        web = await pair.here.get(SERVICES, "web", pair.namespace)
        assert "annotations" not in web["metadata"]
        assert await there(pair) == set()
        await enable(pair.here, pair.namespace)
        for kind, name in (
            (CONFIGMAPS, "words"),
            (CONFIGMAPS, "bound"),
            (SECRETS, token),
            (NETWORK_POLICIES, "web"),
            (SERVICES, "api"),
            (SERVICES, "web"),
        ):
            await pair.copy(kind, name)


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_what_a_pod_in_a_target_needs_stays_right_until_it_ends(pair: Pair) -> None:
    token = await handwritten(pair)
    async with pair.at_work(*CONTROLLERS, share_linger=0.5):
        assert pair.deps is not None
        pod = await pair.here.get(PODS, "web", pair.namespace)
        manifest = chaperon(pod, cluster_name="here", cluster_uid=pair.deps.cluster_uid)
        made = await pair.there.create(CHAPERONS, manifest)
        kept = {"configmaps/words", f"secrets/{token}", "networkpolicies/web", "services/api", "services/web"}
        await until(lambda: _has(pair, kept | {"configmaps/bound"}))
        await enable(pair.here, pair.namespace, None)
        await until(lambda: _has(pair, kept))
        await pair.here.patch(CONFIGMAPS, "words", {"data": {"a": "2"}}, pair.namespace)
        await pair.copy(CONFIGMAPS, "words", lambda copy: copy["data"] == {"a": "2"})
        await pair.here.patch(SERVICES, "api", {"spec": {"sessionAffinity": "ClientIP"}}, pair.namespace)
        await pair.copy(SERVICES, "api", lambda copy: copy["spec"]["sessionAffinity"] == "ClientIP")
        assert await there(pair) == kept

        await pair.end("web")
        await pair.there.delete(CHAPERONS, made["metadata"]["name"], pair.namespace)
        await until(lambda: _has(pair, {"services/api"}))


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_no_target_gets_what_pods_of_a_namespace_need_that_it_does_not_serve(pair: Pair) -> None:
    other = f"{pair.namespace}-b"
    for client in (pair.here, pair.there):
        await client.create(NAMESPACES, {"metadata": {"name": other}})
    await enable(pair.here, other)
    try:
        async with pair.at_work(FollowController, SourceApiController):
            await pair.here.create(CONFIGMAPS, {"metadata": {"name": "words"}, "data": {}}, other)
            await pair.create(CONFIGMAPS, "words", data={})
            foreign = proxy_pod(elected("web", other, volumes=[volume("words")]), [])
            claim = {names.ANNOTATION_CLAIM: names.virtual_node(pair.namespace, "eu")}
            foreign["metadata"]["annotations"] |= ASKS | claim
            foreign["metadata"]["finalizers"] = [names.finalizer(pair.namespace, "eu")]
            await until(lambda: pair.here.get(SERVICE_ACCOUNTS, "default", other))
            await pair.here.create(PODS, foreign)
            await pair.pod("web", annotations=ASKS, volumes=[volume("words")])
            await pair.copy(CONFIGMAPS, "words")
            for kind in (CONFIGMAPS, SECRETS):
                assert await pair.there.list(kind, other, labels=names.LABEL_PARENT_UID) == []
            await pair.here.patch(PODS, "web", {"metadata": {"finalizers": None}}, other)
    finally:
        for client in (pair.here, pair.there):
            await client.delete(NAMESPACES, other)
    await gone(lambda: pair.here.get(PODS, "web", other))


async def _has(pair: Pair, wanted: set[str]) -> bool:
    return await there(pair) == wanted
