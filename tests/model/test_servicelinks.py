"""The link of a shared Service, and what is told on each."""

from datetime import UTC, datetime
from typing import Any

import pytest

from agent.api.conditions import is_true
from agent.model.servicelinks import READY, Finding, Pair, accepted, is_untouched, made_for, said_by, status

NOW = datetime(2026, 11, 25, tzinfo=UTC)
SERVICE: Any = {
    "metadata": {"name": "web", "namespace": "shop", "uid": "u"},
    "spec": {"ports": [{"port": 80}, {"port": 443}]},
}
GOOD = Finding("True", "Accepted")
DONE, WORKS = Finding("True", "Programmed"), Finding("True", "Connected", "its agent answers")
UNVERIFIED = Finding("Unknown", "Unverified", "nobody has measured it")
PENDING, NO_PATH = Finding("False", "Pending", "not yet"), Finding("False", "NoPath", "networks overlap")
AWAY = Finding("False", "TargetUnreachable", "no answer")
SILENT = Finding("Unknown", "TargetUnreachable", "no answer")


def link(name: str = "web", **spec: Any) -> Any:
    return {"metadata": {"name": name, "namespace": "shop", "generation": 2}, "spec": spec}


def pair(
    consumer: str, source: str, connected: Finding = WORKS, programmed: Finding = DONE, driver: str = "endpointslices"
) -> Pair:
    return Pair(consumer, source, driver, programmed, connected, 2)


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


def told(pairs: list[Pair], good: Finding = GOOD, total: int = 4) -> dict[str, tuple[str, str]]:
    found = status(link(), good, pairs, total, NOW)
    return {each["type"]: (each["status"], each["reason"]) for each in found["conditions"]}


@pytest.mark.parametrize(
    ("pairs", "total", "programmed", "connected", "ready"),
    [
        ([], 4, ("True", "Programmed"), ("True", "Connected"), ("True", "Ready")),
        ([], 0, ("True", "Programmed"), ("False", "NoEndpoints"), ("False", "NoEndpoints")),
        ([pair("us", "eu")], 4, ("True", "Programmed"), ("True", "Connected"), ("True", "Ready")),
        # Nobody has measured it: that counts as ready, and is told.
        (
            [pair("us", "eu", UNVERIFIED), pair("hub", "eu")],
            4,
            ("True", "Programmed"),
            ("Unknown", "Unverified"),
            ("True", "Ready"),
        ),
        (
            [pair("us", "eu", UNVERIFIED), pair("us", "hub", SILENT)],
            4,
            ("True", "Programmed"),
            ("Unknown", "TargetUnreachable"),
            ("Unknown", "TargetUnreachable"),
        ),
        (
            [pair("us", "eu", SILENT), pair("us", "hub", NO_PATH, driver="")],
            4,
            ("True", "Programmed"),
            ("False", "NoPath"),
            ("False", "NoPath"),
        ),
        # The first condition that does not hold is the one to look at.
        (
            [pair("us", "eu", NO_PATH), pair("hub", "eu", WORKS, AWAY)],
            4,
            ("False", "TargetUnreachable"),
            ("False", "NoPath"),
            ("False", "TargetUnreachable"),
        ),
        ([pair("us", "eu", WORKS, PENDING)], 4, ("False", "Pending"), ("True", "Connected"), ("False", "Pending")),
    ],
)
def test_conditions_are_what_is_worst_of_all_pairs(
    pairs: list[Pair],
    total: int,
    programmed: tuple[str, str],
    connected: tuple[str, str],
    ready: tuple[str, str],
) -> None:
    assert told(pairs, total=total) == {
        "Accepted": ("True", "Accepted"),
        "Programmed": programmed,
        "Connected": connected,
        "Ready": ready,
    }


def test_of_a_link_that_is_not_accepted_nothing_else_is_told() -> None:
    bad = Finding("False", "NoService", "create it")
    found = status(link(), bad, [pair("us", "eu")], 4, NOW)
    assert found["clusters"] == []
    assert told([pair("us", "eu")], bad)["Ready"] == ("False", "NoService")
    assert told([pair("us", "eu")], bad)["Connected"] == ("Unknown", "Pending")


def test_pairs_of_one_clusters_callers_that_are_alike_are_one_row() -> None:
    pairs = [
        pair("us", "eu"),
        pair("us", "de"),
        pair("us", "local-cluster", UNVERIFIED),
        pair("local-cluster", "us", NO_PATH, driver=""),
    ]
    rows = status(link("web-x", service="web"), GOOD, pairs, 4, NOW)["clusters"]
    assert [(row["cluster"], row["driver"], row["reason"], row["from"], row["ready"]) for row in rows] == [
        ("us", "endpointslices", "Connected", ["eu", "de"], "True"),
        ("us", "endpointslices", "Unverified", ["local-cluster"], "True"),
        ("local-cluster", "none", "NoPath", ["us"], "False"),
    ]
    assert [row["endpoints"] for row in rows] == [4, 2, 2]
    assert {row["namespace"] for row in rows} == {"shop"}


def test_what_keeps_pairs_apart_is_told_of_the_first_three() -> None:
    pairs = [pair(f"c{n}", "eu", NO_PATH, driver="") for n in range(5)]
    conditions = {each["type"]: each for each in status(link(), GOOD, pairs, 4, NOW)["conditions"]}
    assert conditions["Ready"]["message"] == (
        "c0 from eu: networks overlap; c1 from eu: networks overlap; c2 from eu: networks overlap; and 2 more"
    )
    assert conditions["Ready"]["observedGeneration"] == 2


def test_the_same_is_told_in_the_same_words_whatever_the_time() -> None:
    pairs = [pair("us", "eu"), pair("hub", "eu", UNVERIFIED)]
    first = status(link(), GOOD, pairs, 4, NOW)
    again = status({**link(), "status": first}, GOOD, pairs, 4, NOW.replace(year=2027))
    assert again == first
    assert is_true(first["conditions"], READY)


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


def test_callers_in_other_namespaces_have_rows_of_their_own() -> None:
    pairs = [pair("us", "eu"), Pair("us", "eu", "endpointslices", PENDING, WORKS, 2, "web")]
    found = status(link(), GOOD, pairs, 4, NOW)
    assert [(row["cluster"], row["namespace"], row["reason"]) for row in found["clusters"]] == [
        ("us", "shop", "Connected"),
        ("us", "web", "Pending"),
    ]
    assert found["conditions"][-1]["message"] == "us (namespace web) from eu: not yet"
