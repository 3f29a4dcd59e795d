"""Copies of shared Services follow every change that a user can make to the original, on real API servers."""

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from agent.api import names
from agent.api.kinds import SERVICES
from agent.clusters.copies.copying import Item
from agent.services.copies import GlobalServices
from tests.controllers.pair import Pair
from tests.kube.relay import Relay
from tests.waiting import gone, until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]

SHARED = {"annotations": {"multicluster/global": "true"}}
HTTP = {"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}
WEB: Raw = {"selector": {"app": "web"}, "ports": [HTTP]}


def has(**spec: Any) -> Callable[[Raw], bool]:
    return lambda copy: all(copy["spec"].get(field) == value for field, value in spec.items())


CHANGES: list[tuple[Raw, Callable[[Raw], bool]]] = [
    ({"ports": [{**HTTP, "name": "web", "port": 81}]}, lambda copy: copy["spec"]["ports"][0]["name"] == "web"),
    ({"sessionAffinity": "ClientIP"}, has(sessionAffinity="ClientIP")),
    ({"sessionAffinity": "None", "sessionAffinityConfig": None}, has(sessionAffinity="None")),
    ({"publishNotReadyAddresses": True}, has(publishNotReadyAddresses=True)),
    ({"internalTrafficPolicy": "Local"}, has(internalTrafficPolicy="Local")),
    ({"ipFamilyPolicy": "PreferDualStack"}, has(ipFamilyPolicy="PreferDualStack")),
    ({"type": "NodePort", "externalTrafficPolicy": "Local"}, has(type="NodePort", externalTrafficPolicy="Local")),
    ({"type": "ClusterIP", "externalTrafficPolicy": None}, has(type="ClusterIP")),
    ({"selector": None}, lambda copy: "selector" not in copy["spec"]),
    ({"selector": {"app": "api"}}, has(selector={"app": "api"})),
    (
        {"type": "ExternalName", "externalName": "db.example.com"},
        has(type="ExternalName", externalName="db.example.com"),
    ),
    ({"type": "ClusterIP", "externalName": None}, lambda copy: bool(copy["spec"].get("clusterIP"))),
]


async def test_a_copy_follows_its_original_through_every_change_of_type_and_ports(pair: Pair) -> None:
    await pair.create(SERVICES, "web", metadata=SHARED, spec=WEB)
    async with pair.at_work(GlobalServices):
        first = await pair.copy(SERVICES, "web")
        for change, fits in CHANGES:
            await pair.here.patch(SERVICES, "web", {"spec": change}, pair.namespace)
            await pair.copy(SERVICES, "web", fits)
        same = await pair.there.get(SERVICES, "web", pair.namespace)
        assert same["metadata"]["uid"] == first["metadata"]["uid"], "none of these takes another object"
        await pair.here.delete(SERVICES, "web", pair.namespace)
        await gone(lambda: pair.here.get(SERVICES, "web", pair.namespace))
        await pair.create(SERVICES, "web", metadata=SHARED, spec={**WEB, "clusterIP": "None"})
        await pair.copy(SERVICES, "web", has(clusterIP="None", selector={"app": "web"}))


class Noted(GlobalServices):
    """The controller, recording which copies it reconciles."""

    seen: ClassVar[list[Item]] = []

    async def reconcile(self, item: Item) -> float | None:
        self.seen.append(item)
        return await super().reconcile(item)


async def test_targets_of_other_namespaces_are_not_looked_at(pair: Pair) -> None:
    async with pair.at_work(Noted):
        assert pair.deps is not None
        other = await pair.deps.targets.connect(("elsewhere", "eu"), pair.connection, "first")
        await until(lambda: other.ready)
        await pair.create(SERVICES, "web", metadata=SHARED, spec=WEB)
        await pair.copy(SERVICES, "web")
        await pair.here.delete(SERVICES, "web", pair.namespace)
        await pair.gone(SERVICES, "web")
    looked_at = {node for node, namespace, _ in Noted.seen if namespace == pair.namespace}
    assert looked_at == {names.virtual_node(pair.namespace, "eu")}


async def test_a_target_that_does_not_answer_holds_up_no_other(pair: Pair) -> None:
    async with Relay.started(pair.connection) as relay, pair.at_work(GlobalServices):
        assert pair.deps is not None
        # Requests without a response outlast this test.
        pair.deps.local.client.session.timeout = 600.0
        dark = await pair.connect("dark", relay.connection)
        relay.freeze(lambda method, path: method == "POST" and path.endswith("/services"))
        for number in range(2 * GlobalServices.lane_width):
            await pair.create(SERVICES, f"web-{number}", metadata=SHARED, spec=WEB)
        for number in range(2 * GlobalServices.lane_width):
            await pair.copy(SERVICES, f"web-{number}")
        assert dark.ready
