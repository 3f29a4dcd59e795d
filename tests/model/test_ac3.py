"""AC3's networks: each action of its operator on a link, and the reported status."""

from datetime import UTC, datetime
from typing import Any

import pytest

from agent.model.ac3 import Told, World, accepted, heard, network_of, plan, ready, sharing, status
from agent.model.servicelinks import Finding

Raw = dict[str, Any]

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OPERATORS = "ac3no-system"


def link(**fields: Any) -> Raw:
    ends = {"sourceCluster": "us", "targetCluster": "eu", "sourceNamespace": "demo", "targetNamespace": "demo"}
    return {**ends, **fields}


def network(*links: Raw, namespace: str = "demo", **fields: Any) -> Raw:
    metadata = {"namespace": namespace, "name": "hello", "uid": "u-1", "generation": 2}
    return {"metadata": metadata, "spec": {"links": list(links)}, **fields}


def service(name: str, selector: Raw | None = None, **annotations: str) -> Raw:
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {"selector": selector or {}}}


def deployment(**labels: str) -> Raw:
    return {"spec": {"template": {"metadata": {"labels": labels}}}}


WORLD = World(
    frozenset({"demo", "shop"}),
    {("demo", "hello-backend"): deployment(app="hello", tier="b"), ("demo", "lonely"): deployment(app="lonely")},
    {
        "demo": [
            service("backend", {"app": "hello"}),
            service("metrics", {"app": "hello", "tier": "b"}),
            service("other", {"app": "other"}),
            service("bare"),
            service(
                "rerouted",
                {"multicluster.admiralty.io/app": "hello"},
                **{"multicluster.admiralty.io/original-selector": "app=hello"},
            ),
        ]
    },
)


def specs(*links: Raw, namespace: str = "demo", everywhere: str = OPERATORS) -> list[Raw]:
    found = plan(network(*links, namespace=namespace), WORLD, everywhere)
    return [each["spec"] for each in found.links.values()]


def named(*ports: int, name: str = "backend") -> list[Raw]:
    return [{"name": name, "port": port} for port in ports]


BOTH = {"from": ["us"], "to": [{"cluster": "eu"}]}


@pytest.mark.parametrize(
    ("links", "wanted"),
    [
        ([], []),
        ([link()], []),
        ([link(services=named(8080))], [{"service": "backend", **BOTH, "ports": [8080]}]),
        ([link(services=named(9090, 8080))], [{"service": "backend", **BOTH, "ports": [8080, 9090]}]),
        # Two links between the same places are one.
        ([link(services=named(8080)), link(services=named(9))], [{"service": "backend", **BOTH, "ports": [9, 8080]}]),
        # An application selects the Services of its pods, on all ports; a named Service keeps to its ports.
        (
            [link(applications=["hello-backend"], services=named(8080))],
            [
                {"service": "backend", **BOTH, "ports": [8080]},
                {"service": "metrics", **BOTH},
                {"service": "rerouted", **BOTH},
            ],
        ),
        (
            [link(services=named(1, name="metrics")), link(applications=["hello-backend"])],
            [
                {"service": "metrics", **BOTH},
                {"service": "backend", **BOTH},
                {"service": "rerouted", **BOTH},
            ],
        ),
        # Callers in another namespace, even of the same cluster; within one place no link is needed.
        (
            [link(targetNamespace="web", services=named(1))],
            [{"service": "backend", "from": ["us"], "to": [{"cluster": "eu", "namespace": "web"}], "ports": [1]}],
        ),
        (
            [link(targetCluster="us", targetNamespace="web", services=named(1))],
            [{"service": "backend", "from": ["us"], "to": [{"cluster": "us", "namespace": "web"}], "ports": [1]}],
        ),
        ([link(targetCluster="us", services=named(1))], []),
        # A missing Service is linked all the same: its ServiceLink reports the problem.
        ([link(services=named(1, name="later"))], [{"service": "later", **BOTH, "ports": [1]}]),
        # The same Service for two callers needs two links.
        (
            [link(services=named(1)), link(targetCluster="asia", services=named(2))],
            [
                {"service": "backend", **BOTH, "ports": [1]},
                {"service": "backend", "from": ["us"], "to": [{"cluster": "asia"}], "ports": [2]},
            ],
        ),
    ],
)
def test_each_link_means_service_links(links: list[Raw], wanted: list[Raw]) -> None:
    assert specs(*links) == wanted


@pytest.mark.parametrize(
    ("wrong", "reason", "words"),
    [
        (link(sourceCluster=""), "InvalidName", "sourceCluster"),
        (link(targetCluster="x" * 254), "InvalidName", "targetCluster"),
        (link(sourceNamespace="De mo"), "InvalidName", "sourceNamespace: 'De mo'"),
        (link(targetNamespace="-x"), "InvalidName", "targetNamespace"),
        (link(services=named(1, name="a.b")), "InvalidName", "services: 'a.b'"),
        (link(services=named(0)), "NoPort", "1 to 65535"),
        (link(services=named(65536)), "NoPort", "65536"),
        (link(sourceNamespace="shop", services=named(1)), "NamespaceNotAllowed", "write it there, or in ac3no-system"),
        (link(applications=["nobody"]), "NoApplication", "no Deployment nobody in namespace demo"),
        (link(applications=["lonely"]), "NoService", "no Service selects the pods of Deployment lonely"),
    ],
)
def test_what_is_wrong_with_one_link_is_told_and_concerns_no_other(wrong: Raw, reason: str, words: str) -> None:
    found = plan(network(wrong, link(services=named(1))), WORLD, OPERATORS)
    (told,) = found.refused
    assert (told.where, told.finding.status, told.finding.reason) == ("spec.links[0]", "False", reason)
    assert words in told.finding.message
    assert [each["spec"]["service"] for each in found.links.values()] == ["backend"]
    assert list(found.fields.values()) == ["spec.links[1]"]


def test_only_the_operators_namespace_links_services_of_others() -> None:
    shop = link(sourceNamespace="shop", services=named(1))
    assert len(specs(shop, namespace=OPERATORS)) == 1
    assert specs(shop, namespace=OPERATORS, everywhere="") == []
    found = plan(network(shop), WORLD, "").refused[0].finding.message
    assert found.endswith("write it there")
    gone = plan(network(link(sourceNamespace="none"), namespace=OPERATORS), WORLD, OPERATORS).refused[0].finding
    assert gone.reason == "NamespaceMissing"


def test_a_service_link_says_for_whom_it_is_and_its_name_is_its_own() -> None:
    long = "s" * 63
    elsewhere = link(targetNamespace="web", services=named(1))
    links = [link(services=named(1)), elsewhere, link(services=named(1, name=long))]
    found = plan(network(*links), WORLD, OPERATORS).links
    assert len(found) == 3
    for (namespace, name), each in found.items():
        assert each["metadata"]["namespace"] == namespace == "demo"
        assert each["metadata"]["name"] == name
        assert len(name) <= 63
        assert network_of(each) == ("demo", "hello")
        assert heard(each, "u-1").reason == "Pending"
        assert heard(each, "u-2").reason == "Conflict"
    assert {name for _, name in found} & {"backend", long} == set()
    again = plan(network(*reversed(links)), WORLD, OPERATORS).links
    assert again.keys() == found.keys()


@pytest.mark.parametrize("metadata", [{}, {"labels": {"multicluster/ac3-network-uid": "u"}}])
def test_other_links_are_of_no_network(metadata: Raw) -> None:
    assert network_of({"metadata": metadata}) is None


MINE = {"multicluster/global": "true", "multicluster/shared-for": "ac3"}
GONE = dict.fromkeys(MINE)


@pytest.mark.parametrize(
    ("annotations", "wanted", "changes"),
    [
        (None, True, MINE),
        ({"a": "b"}, True, MINE),
        (MINE, True, {}),
        ({"multicluster/shared-for": "ac3"}, True, MINE),
        ({"multicluster/global": "true"}, True, {}),
        ({"io.cilium/global-service": "true"}, True, {}),
        ({"multicluster.admiralty.io/original-selector": "a=b"}, True, {}),
        # Its user does not want it, or it is another cluster's copy.
        ({"multicluster/global": "false"}, True, {}),
        ({"multicluster.admiralty.io/global": "false"}, True, {}),
        ({"multicluster.admiralty.io/is-delegate": ""}, True, {}),
        (MINE, False, GONE),
        ({"multicluster/global": "true"}, False, {}),
        ({"multicluster/global": "false", "multicluster/shared-for": "ac3"}, False, {"multicluster/shared-for": None}),
        (None, False, {}),
    ],
)
def test_services_are_shared_while_networks_mean_them_and_their_users_word_counts(
    annotations: dict[str, str] | None, wanted: bool, changes: Raw
) -> None:
    assert sharing(annotations, wanted) == changes


def condition(status: str, reason: str, message: str = "", generation: int = 1) -> Raw:
    return {
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
    }


@pytest.mark.parametrize(
    ("conditions", "heard_as"),
    [
        ([], ("Unknown", "Pending")),
        ([condition("True", "Ready")], ("True", "Ready")),
        ([condition("False", "NoPath", "no driver")], ("False", "NoPath")),
        ([condition("Unknown", "TargetUnreachable")], ("Unknown", "TargetUnreachable")),
        ([condition("True", "Ready", generation=0)], ("Unknown", "Pending")),
    ],
)
def test_what_a_service_link_tells_counts_once_it_is_about_what_is_written(
    conditions: list[Raw], heard_as: tuple[str, str]
) -> None:
    metadata = {"namespace": "demo", "name": "b", "generation": 1, "labels": {"multicluster/ac3-network-uid": "u"}}
    found = heard({"metadata": metadata, "status": {"conditions": conditions}}, "u")
    assert (found.status, found.reason) == heard_as


UP, DOWN, AWAY = Finding("True", "Ready"), Finding("False", "NoPath", "no way"), Finding("Unknown", "TargetUnreachable")


@pytest.mark.parametrize(
    ("refused", "told", "is_accepted", "is_ready"),
    [
        ([], [], ("True", "Accepted", ""), ("True", "Ready", "")),
        ([], [UP, AWAY], ("True", "Accepted", ""), ("Unknown", "TargetUnreachable", "1: TargetUnreachable")),
        ([], [AWAY, DOWN, UP], ("True", "Accepted", ""), ("False", "NoPath", "1: no way")),
        ([DOWN], [UP], ("False", "NoPath", "0: no way"), ("False", "NoPath", "0: no way")),
        (
            [],
            [DOWN] * 7,
            ("True", "Accepted", ""),
            ("False", "NoPath", "0: no way; 1: no way; 2: no way; 3: no way; 4: no way; and 2 more"),
        ),
    ],
)
def test_a_network_is_as_good_as_the_worst_of_its_links(
    refused: list[Finding],
    told: list[Finding],
    is_accepted: tuple[str, str, str],
    is_ready: tuple[str, str, str],
) -> None:
    bad, found = ([Told(str(number), each) for number, each in enumerate(group)] for group in (refused, told))
    one, every = accepted(bad), ready(bad, found)
    assert (one.status, one.reason, one.message) == is_accepted
    assert (every.status, every.reason, every.message) == is_ready


def test_previous_links_are_kept_as_ac3_has_them_and_conditions_where_there_is_room() -> None:
    one = link(services=named(1))
    made = network(one)
    assert status(made, [], [], NOW, has_conditions=False) == {"previousLinks": [one]}
    told = status(made, [], [Told("spec.links[0] backend", DOWN)], NOW, has_conditions=True)
    assert told["previousLinks"] == [one]
    assert [(each["type"], each["status"], each["observedGeneration"]) for each in told["conditions"]] == [
        ("Accepted", "True", 2),
        ("Ready", "False", 2),
    ]
    assert status({**made, "status": told}, [], [Told("spec.links[0] backend", DOWN)], NOW, has_conditions=True) == told
