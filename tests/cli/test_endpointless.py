"""Services that select ready elected pods and have no endpoint, as doctor reports them."""

from typing import Any

import pytest

from agent.cli.checks import endpointless
from agent.cli.checks.finding import Level
from tests.cli.test_checks import view

Raw = dict[str, Any]

P = "multicluster.admiralty.io/"
LABELS = {"app.kubernetes.io/name": "kafka", "strimzi.io/name": "demo-kafka"}
SELECTOR = {"strimzi.io/name": "demo-kafka"}


def pod(labels: Raw = LABELS, *, ip: str = "10.0.0.1", ready: str = "True") -> Raw:
    status = {"podIP": ip, "conditions": [{"type": "Ready", "status": ready}]}
    return {"metadata": {"namespace": "shop", "name": "broker-0", "labels": labels}, "status": status}


def service(selector: Raw = SELECTOR, annotations: Raw | None = None, **spec: Any) -> Raw:
    metadata = {"namespace": "shop", "name": "broker", "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"selector": selector, **spec}}


def endpoints(ready: bool) -> Raw:
    found = [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}]
    labels = {"kubernetes.io/service-name": "broker"}
    return {"metadata": {"namespace": "shop", "name": "broker-x", "labels": labels}, "endpoints": found}


def told(service: Raw, slices: list[Raw], pods: list[Raw]) -> list[tuple[Level, str, str]]:
    found = tuple(endpointless.found([service], slices, pods))
    return [(each.level, each.what, each.remedy) for each in endpointless.services(view(endpointless=found))]


def test_a_rewritten_selector_whose_labels_collide_is_named_with_the_labels() -> None:
    annotations = {P + "original-selector": "strimzi.io/name=demo-kafka"}
    ((level, what, remedy),) = told(service({P + "name": "demo-kafka"}, annotations), [], [pod()])
    assert level is Level.FAIL
    assert "app.kubernetes.io/name and strimzi.io/name both become multicluster.admiralty.io/name" in what
    assert "no-prefix-label-regexp" in remedy


def test_pods_whose_addresses_are_not_reachable_are_named() -> None:
    ((level, what, remedy),) = told(service(), [endpoints(ready=False)], [pod(ip="")])
    assert level is Level.FAIL
    assert "no pod has an address" in what
    assert "ServicesShared" in remedy


@pytest.mark.parametrize(
    ("service", "slices"),
    [
        (service(), [endpoints(ready=True)]),
        (service({"app": "other"}), []),
        (service(annotations={P + "is-delegate": ""}), []),
        (service(type="ExternalName"), []),
        (service({}), []),
    ],
    ids=["it has one", "selects other pods", "another cluster's", "a name", "no selector"],
)
def test_services_that_are_well_or_select_none_are_not_named(service: Raw, slices: list[Raw]) -> None:
    ((level, what, _),) = told(service, slices, [pod()])
    assert (level, what) == (Level.OK, "Services that select ready elected pods have some")


def test_of_many_services_with_one_cause_there_is_one_finding() -> None:
    many = [service() for _ in range(5)]
    for number, each in enumerate(many):
        each["metadata"]["name"] = f"s{number}"
    found = tuple(endpointless.found(many, [], [pod()]))
    (finding,) = endpointless.services(view(endpointless=found))
    assert finding.about == "Service shop/s0, shop/s1, shop/s2 and 2 more"
