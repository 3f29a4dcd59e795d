"""Copies of shared Services go through every change that a user may make of the original, on real API servers."""

from collections.abc import Callable
from typing import Any

import pytest

from agent.api.kinds import SERVICES
from agent.controllers.globalsvc import GlobalServices
from tests.controllers.pair import Pair
from tests.waiting import gone

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
