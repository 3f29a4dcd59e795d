"""Native endpoints of proxy pods by Kubernetes' own controllers: names, ports, readiness."""

from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, PODS, SERVICES
from agent.model.proxypod import proxy_pod
from agent.services.reroute import ServiceRerouteController
from tests.controllers.pair import Pair
from tests.controllers.proxies import elected
from tests.controllers.servicepods import in_eu
from tests.waiting import until

pytestmark = pytest.mark.cluster

PORTS = [
    {"name": "http", "port": 80, "targetPort": "web"},
    {"name": "dns", "port": 53, "targetPort": 5353, "protocol": "UDP"},
]


async def test_pods_of_a_stateful_set_have_names_and_ports_before_they_are_ready(pair: Pair) -> None:
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"app": "db-0"},
        "ports": PORTS,
    }
    container: Any = {"name": "main", "image": "busybox", "ports": [{"name": "web", "containerPort": 8080}]}
    pod = proxy_pod(elected("db-0", pair.namespace, hostname="db-0", subdomain="db", containers=[container]), [])
    pod["spec"]["nodeName"] = names.virtual_node(pair.namespace, "eu")
    status = {"phase": "Running", "podIP": "10.2.0.7", "podIPs": [{"ip": "10.2.0.7"}]}

    async def slice() -> Any:
        found = await pair.here.list(ENDPOINT_SLICES, pair.namespace, labels=f"{names.LABEL_SERVICE_NAME}=db")
        return next((each for each in found if each.get("endpoints")), None)

    async with in_eu(pair), pair.at_work(ServiceRerouteController):
        await pair.create(SERVICES, "db", spec=spec)
        await pair.here.create(PODS, pod)
        await pair.here.patch(PODS, "db-0", {"status": status}, pair.namespace, sub="status")
        found = await until(slice)
        (endpoint,) = found["endpoints"]
        assert endpoint["hostname"] == "db-0"
        assert endpoint["addresses"] == ["10.2.0.7"]
        assert endpoint["conditions"]["ready"] is True
        assert {(each["name"], each["port"]) for each in found["ports"]} == {("http", 8080), ("dns", 5353)}
        await pair.end("db-0")
