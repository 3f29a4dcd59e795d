"""Link of a shared Service: its validation, and the status that another controller writes."""

from typing import Any

import pytest

from agent.model.servicelinks import accepted, is_untouched, made_for, said_by, without_effect
from agent.model.servicerule import firsts

SERVICE: Any = {
    "metadata": {"name": "web", "namespace": "shop", "uid": "u"},
    "spec": {"ports": [{"port": 80}, {"port": 443}]},
}


def link(name: str = "web", **spec: Any) -> Any:
    return {"metadata": {"name": name, "namespace": "shop", "generation": 2}, "spec": spec}


def service(**annotations: str) -> Any:
    found = {f"multicluster/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {**SERVICE, "metadata": {**SERVICE["metadata"], "annotations": found}}


@pytest.mark.parametrize(
    ("spec", "of", "shared", "reason", "words"),
    [
        ({}, SERVICE, True, "Accepted", ""),
        ({"ports": [80], "from": ["us"], "to": [{"cluster": "hub"}], "driver": "mcs"}, SERVICE, True, "Accepted", ""),
        ({}, None, False, "NoService", "no Service web in this namespace: create it"),
        ({"service": "db"}, None, False, "NoService", "no Service db"),
        ({}, SERVICE, False, "NoService", "not shared with other clusters: annotate it multicluster/global: true"),
        ({}, {**SERVICE, "spec": {"type": "ExternalName"}}, True, "InvalidServiceType", "ExternalName"),
        ({"ports": [80, 8080]}, SERVICE, True, "NoPort", "spec.ports: the Service has no port 8080 (it has 80, 443)"),
        ({"from": ["mars"]}, SERVICE, True, "UnknownCluster", "spec.from: .* called mars (there is: hub, us)"),
        ({"to": [{"cluster": "mars"}]}, SERVICE, True, "UnknownCluster", "spec.to: "),
        (
            {"to": [{"cluster": "us", "namespace": "x"}]},
            SERVICE,
            True,
            "NamespaceUnsupported",
            "namespace x .* --link-n",
        ),
        ({"driver": "external/sdwan"}, SERVICE, True, "Accepted", ""),
        ({"driver": "external"}, SERVICE, True, "UnknownDriver", "spec.driver: 'external' is no driver"),
        ({"driver": "wormhole"}, SERVICE, True, "UnknownDriver", "spec.driver: 'wormhole' is no driver; choose one of"),
        ({}, service(network_driver="worm"), True, "UnknownDriver", "annotation multicluster/network-driver: 'worm'"),
        (
            {},
            service(affinity="sideways"),
            True,
            "InvalidAffinity",
            "multicluster/affinity: 'sideways' is none; choose",
        ),
    ],
)
def test_a_link_that_is_not_understood_says_what_and_what_to_do(
    spec: dict[str, Any], of: Any, shared: bool, reason: str, words: str
) -> None:
    found = accepted(link(**spec), of, shared, {"hub", "us"})
    assert (found.reason, found.status) == (reason, str(reason == "Accepted"))
    for part in words.split(" .* "):
        assert part in found.message


def test_a_link_whose_driver_another_one_overrules_is_in_conflict() -> None:
    mine, first = link("web", driver="mcs"), link("also", service="web", driver="gateway")
    both = firsts([mine, first])
    found = accepted(mine, SERVICE, True, {"hub"}, None, both)
    assert (found.status, found.reason) == ("False", "Conflict")
    assert accepted(first, SERVICE, True, {"hub"}, None, both).status == "True"


@pytest.mark.parametrize(
    ("cluster", "reason", "words"),
    [
        ("hub", "Accepted", ""),
        ("us", "UnknownCluster", "the Target us is for namespace shop alone, and not for x: name a ClusterTarget"),
        ("mars", "UnknownCluster", "no Target of this namespace and no ClusterTarget is called mars"),
    ],
)
def test_callers_elsewhere_are_in_clusters_that_serve_every_namespace(cluster: str, reason: str, words: str) -> None:
    spec = {"to": [{"cluster": cluster, "namespace": "x"}]}
    found = accepted(link(**spec), SERVICE, True, {"hub", "us"}, {"hub"})
    assert found.reason == reason
    assert words in found.message


def test_the_link_that_is_made_is_the_services_and_known_again() -> None:
    made = made_for(SERVICE)
    assert made["metadata"]["name"] == made["spec"]["service"] == "web"
    assert [owner["uid"] for owner in made["metadata"]["ownerReferences"]] == ["u"]
    assert is_untouched(made, SERVICE)
    assert not is_untouched({**made, "spec": {"service": "web", "from": ["us"]}}, SERVICE)
    assert not is_untouched(link(service="web"), SERVICE)
    assert not is_untouched(made, {**SERVICE, "metadata": {**SERVICE["metadata"], "uid": "another"}})


@pytest.mark.parametrize(
    ("said", "programmed", "connected"),
    [
        ({}, ("False", "Pending"), ("Unknown", "Pending")),
        ({"Programmed": ("True", "Done", 2)}, ("True", "Programmed"), ("Unknown", "Pending")),
        ({"Programmed": ("True", "Done", 1)}, ("False", "Pending"), ("Unknown", "Pending")),
        ({"Programmed": ("True", "Done", None)}, ("True", "Programmed"), ("Unknown", "Pending")),
        (
            {"Programmed": ("False", "NoRouter", 2), "Connected": ("Unknown", "Unverified", 2)},
            ("False", "NoRouter"),
            ("Unknown", "Unverified"),
        ),
        (
            {"Programmed": ("True", "Done", 2), "Connected": ("True", "Pings", 3)},
            ("True", "Programmed"),
            ("True", "Connected"),
        ),
        ({"Connected": ("perhaps", "", 2)}, ("False", "Pending"), ("Unknown", "Pending")),
    ],
)
def test_another_controller_is_believed_about_the_generation_that_is(
    said: dict[str, tuple[str, str, int | None]], programmed: tuple[str, str], connected: tuple[str, str]
) -> None:
    conditions = [
        {"type": f"sdwan/{type}", "status": status, "reason": reason, "message": "m"}
        | ({"observedGeneration": generation} if generation else {})
        for type, (status, reason, generation) in said.items()
    ]
    found = said_by("sdwan", {**link(), "status": {"conditions": conditions}})
    assert [(each.status, each.reason) for each in found] == [programmed, connected]
    others = said_by("vendor", {**link(), "status": {"conditions": conditions}})
    assert "vendor/Programmed" in others[0].message


@pytest.mark.parametrize(
    ("affinity", "drivers", "told"),
    [
        (
            "remote",
            ("gateway", "endpointslices"),
            "affinity remote has no effect with the driver endpointslices, gateway",
        ),
        ("remote", ("cilium", ""), ""),
        ("remote", ("external/sdwan",), ""),
        ("local", ("gateway",), ""),
        (
            "local",
            ("mcs",),
            "affinity local has no effect with the driver mcs (it has with endpointslices, gateway, cilium)",
        ),
        ("none", ("mcs",), ""),
        ("", ("mcs",), ""),
    ],
)
def test_an_affinity_that_a_driver_does_not_support_is_named(
    affinity: str, drivers: tuple[str, ...], told: str
) -> None:
    found = without_effect(affinity, drivers)
    assert found.startswith(told)
    assert bool(found) == bool(told)
