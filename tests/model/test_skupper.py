"""Objects for Skupper, and the translation of its status."""

from typing import Any

import pytest

from agent.model import skupper
from agent.model.service import is_headless

SERVICE: Any = {
    "metadata": {"name": "web", "namespace": "shop", "uid": "u"},
    "spec": {
        "selector": {"b": "2", "a": "1"},
        "ports": [
            {"name": "http", "port": 80},
            {"name": "dns", "port": 53, "protocol": "UDP"},
            {"name": "admin", "port": 9000, "protocol": "TCP"},
        ],
    },
}


def said(kind: str, state: str = "Ready", message: str = "OK", **conditions: str) -> Any:
    found = [{"type": type, "status": status, "reason": state} for type, status in conditions.items()]
    return {
        "kind": kind,
        "metadata": {"name": "x"},
        "status": {"status": state, "message": message, "conditions": found},
    }


def test_a_connector_and_a_listener_meet_by_their_key() -> None:
    connector, listener = skupper.connector(SERVICE, 80, 8080), skupper.listener(SERVICE, 80)
    assert connector["spec"] == {"routingKey": "shop.web.80", "port": 8080, "selector": "a=1,b=2", "type": "tcp"}
    assert listener["spec"] == {
        "routingKey": "shop.web.80",
        "host": skupper.host("shop", "web"),
        "port": 80,
        "type": "tcp",
    }
    assert connector["metadata"]["ownerReferences"][0]["uid"] == "u"


@pytest.mark.parametrize("name", ["web", 63 * "a", 44 * "a" + "-b"])
def test_names_are_names_and_no_two_services_have_the_same(name: str) -> None:
    found = skupper.host("shop", name)
    assert len(found) <= 63
    assert "--" not in found
    assert found != skupper.host("sho", name)
    service = {**SERVICE, "metadata": {**SERVICE["metadata"], "name": name}}
    assert len(skupper.listener(service, 65535)["metadata"]["name"]) <= 63


def test_two_services_with_one_beginning_have_objects_of_their_own() -> None:
    begin = "payment-processing-backend-for-the-european-region"
    made = [{**SERVICE, "metadata": {**SERVICE["metadata"], "name": f"{begin}-{each}"}} for each in ("blue", "green")]
    for write in (lambda each: skupper.connector(each, 80, 8080), lambda each: skupper.listener(each, 80)):
        found = {write(each)["metadata"]["name"] for each in made}
        assert len(found) == 2
        assert all(len(each) <= 63 for each in found)
    # Short names stay unchanged, so that existing objects are not recreated.
    assert skupper.listener(SERVICE, 80)["metadata"]["name"] == f"{SERVICE['metadata']['name']}-80-link"


def test_only_tcp_is_carried_and_of_that_what_is_asked_for() -> None:
    assert skupper.tcp_ports(SERVICE, None) == [("http", 80), ("admin", 9000)]
    assert skupper.tcp_ports(SERVICE, {"admin", "dns"}) == [("admin", 9000)]


def test_a_service_leads_to_the_routers_of_its_listeners() -> None:
    ports = [{"name": "web-80-link", "port": 80}, {"name": "web-9000-link", "port": 9000}, {"name": "x", "port": 1}]
    made = {"metadata": {"name": "web-link-1"}, "spec": {"ports": ports}}
    slice = {
        "addressType": "IPv4",
        "ports": [{"name": each["name"], "port": 1000 + index} for index, each in enumerate(ports)],
        "endpoints": [{"addresses": ["10.9.9.9"], "conditions": {"ready": True}, "nodeName": "n"}],
    }
    found = skupper.mirror(SERVICE, made, [{**slice, "endpoints": None}, slice])
    assert found is not None
    assert found["ports"] == [{"name": "http", "port": 1000}, {"name": "admin", "port": 1001}]
    assert found["endpoints"] == [{"addresses": ["10.9.9.9"], "conditions": {"ready": True}}]
    assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
    assert skupper.mirror(SERVICE, made, []) is None
    backwards = {**made, "spec": {"ports": ports[::-1]}}
    assert skupper.mirror(SERVICE, backwards, [{**slice, "ports": slice["ports"][::-1]}]) == found


def test_a_headless_service_has_no_port_that_routers_lead_to() -> None:
    headless = {**SERVICE, "spec": {**SERVICE["spec"], "clusterIP": "None"}}
    assert is_headless(headless["spec"])
    assert not is_headless(SERVICE["spec"])
    assert skupper.tcp_ports(headless, None) == []


LISTENER = said("Listener", Configured="True", Matched="True")


@pytest.mark.parametrize(
    ("listeners", "status", "reason", "words"),
    [
        ([LISTENER], "True", "Connected", ""),
        ([], "False", "Pending", "no Listener yet"),
        ([{"kind": "Listener", "metadata": {"name": "x"}}], "False", "Pending", "see that it runs"),
        ([said("Listener", "Pending", "Pending", Configured="False")], "False", "Pending", "x: not Configured yet"),
        ([said("Listener", "Error", "boom", Configured="False")], "False", "SkupperError", "Listener x: boom"),
        (
            [LISTENER, said("Listener", "Error", "Service a already exists in namespace", Configured="False")],
            "False",
            "Conflict",
            "Listener x: Service a already exists in namespace",
        ),
        (
            [said("Listener", "Pending", "waiting", Configured="True", Matched="False")],
            "False",
            "NoMatchingConnector",
            "waiting",
        ),
    ],
)
def test_whether_callers_reach_others_is_told_in_skuppers_words(
    listeners: list[Any], status: str, reason: str, words: str
) -> None:
    found = skupper.matched(listeners)
    assert (found.status, found.reason) == (status, reason)
    assert words in found.message


def test_a_connector_that_selects_nothing_says_so() -> None:
    good = said("Connector", Configured="True", Matched="False")
    assert skupper.configured([good], "Connector").status == "True"
    found = skupper.configured([good, said("Connector", "Error", "No matches for selector", Configured="False")], "")
    assert (found.status, found.reason) == ("False", "NoEndpoints")
    assert skupper.configured([], "Connector").reason == "Pending"
