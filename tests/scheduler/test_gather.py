from typing import Any

import pytest

from agent.api import names
from agent.model.errors import InvalidPod
from agent.model.proxypod import proxy_pod
from agent.scheduler.gather import attempts_annotation, attempts_of, demand_of
from agent.scheduling.snapshot import amounts
from tests.model.pods import pod


def demand_for(**annotations: str) -> Any:
    spec = {"nodeSelector": {"region": "eu"}, "containers": [{"name": "m", "resources": {"requests": {"cpu": "2"}}}]}
    keys = {names.PREFIX + name.replace("_", "-"): value for name, value in annotations.items()}
    return demand_of(proxy_pod(pod(annotations=keys, spec=spec), []))


def test_the_sources_constraints_are_for_the_targets_own_nodes() -> None:
    demand = demand_for()
    assert demand.source["nodeSelector"] == {"region": "eu"}
    assert "region" not in demand.proxy["nodeSelector"]
    assert demand.requests == amounts({"cpu": "2", "pods": "1"})


def test_constraints_that_choose_the_target_are_not_asked_of_its_nodes() -> None:
    demand = demand_for(use_constraints_from_spec_for_proxy_pod_scheduling="")
    assert demand.proxy["nodeSelector"]["region"] == "eu"
    assert "nodeSelector" not in demand.source


def test_a_proxy_pod_without_manifest_has_no_demand() -> None:
    with pytest.raises(InvalidPod, match="sourcepod-manifest"):
        demand_of(pod())


def test_the_memory_of_attempts_lives_on_the_pod() -> None:
    text = attempts_annotation({"admiralty-a": "full"}, "admiralty-b", 'said "no"')
    found = attempts_of({"metadata": {"annotations": {names.ANNOTATION_ATTEMPTS: text}}})
    assert found == {"admiralty-a": "full", "admiralty-b": 'said "no"'}


@pytest.mark.parametrize("text", ["", "nonsense", "[1]", '{"a":1}'])
def test_a_memory_that_cannot_be_read_is_none(text: str) -> None:
    assert attempts_of({"metadata": {"annotations": {names.ANNOTATION_ATTEMPTS: text}}}) == {}
