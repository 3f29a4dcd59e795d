"""Affinity through gateways: its fields in GatewayPeers, and the slices that wait for it."""

from agent.model.gatewayaffinity import held_back, own_first, told
from agent.model.gatewaylink import Shared
from agent.model.gatewayslices import slices
from tests.model.test_gatewaylink import HTTP, peer
from tests.model.test_gatewayslices import ONE, TWO, says

NAME = "kubernetes.io/service-name"


def test_a_peer_says_whose_callers_stay_in_their_own_cluster() -> None:
    given = peer()
    # Without affinity the field is omitted: an older CRD, which drops it, leaves the object unchanged.
    assert told([]) == {}
    assert own_first(given) == []
    given["spec"] |= told(["web", "db"])
    assert own_first(given) == ["db", "web"]


def test_slices_of_services_that_wait_have_no_ready_endpoint() -> None:
    ports = {"db": 20000, "web": 20001}
    status = {
        "services": [{"name": name, "ports": [{"port": 80, "locals": [port]}]} for name, port in ports.items()],
        "gateways": {"gw-1": says(20000, 20001)},
    }
    given = peer(services=[Shared(name, HTTP, 1) for name in ports], status=status)
    made = {each["metadata"]["name"]: each for each in slices(given, [ONE, TWO], "IPv4", set(ports))}
    held = held_back(made, {"web"})
    ready = {
        slice["metadata"]["labels"][NAME]: [each["conditions"]["ready"] for each in slice["endpoints"]]
        for slice in held.values()
    }
    assert ready == {"db": [True, False], "web": [False, False]}
    assert held.keys() == made.keys()
    assert held_back(made, set()) == made
