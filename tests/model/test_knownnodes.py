"""The incremental summary of nodes equals a summary of all nodes from scratch."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.model.knownnodes import KnownNodes
from agent.model.summary import DETAILS, Detail, survey, survey_of
from tests.examples import examples

HOSTNAME = "kubernetes.io/hostname"
VIRTUAL = {"virtual-kubelet.io/provider": "admiralty"}


def node(name: str, variant: int) -> dict[str, Any]:
    """Return one of 24 different nodes. Each difference in amounts is large enough to be published."""
    labels = {"region": "eu", "zone": f"z{variant % 2}", HOSTNAME: name} | ({"gpu": "yes"} if variant % 3 == 0 else {})
    amounts = {"cpu": str(2 + variant % 4), "memory": ["0", "1Gi", "1e9"][variant % 3]}
    spec = {
        "podCIDRs": [f"10.0.{variant % 4}.0/24"],
        "unschedulable": variant % 8 == 0,
        "taints": [{"key": "a", "effect": "NoSchedule"}] if variant % 6 == 0 else [],
    }
    virtual = VIRTUAL if variant == 23 else {}
    return {
        "metadata": {"name": name, "labels": labels | virtual},
        "spec": spec,
        "status": {"capacity": {**amounts, "pods": str(variant // 12)}, "allocatable": amounts} if variant else {},
    }


STEPS = st.lists(st.tuples(st.sampled_from(["a", "b", "c", "d"]), st.none() | st.integers(0, 23)), max_size=20)


@settings(max_examples=examples(200))
@given(STEPS)
def test_each_look_says_what_reading_all_anew_would(steps: list[tuple[str, int | None]]) -> None:
    known, present = KnownNodes(), dict[str, dict[str, Any]]()
    for name, variant in steps:
        if variant is None:
            present.pop(name, None)
            known.remove(name)
        else:
            present[name] = node(name, variant)
            known.put(present[name])
        for detail in DETAILS:
            assert survey_of(known, detail) == survey(present.values(), detail)


@pytest.mark.parametrize("detail", DETAILS)
def test_nodes_that_are_gone_leave_nothing(detail: Detail) -> None:
    known = KnownNodes()
    known.put(node("a", 1))
    known.remove("a")
    known.remove("a")
    assert survey_of(known, detail) == survey([], detail)
