"""Cached fields of pods, and running totals of their requests."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from agent.api import names
from agent.api.kinds import PODS
from agent.kube.store import Object
from agent.model.requests import amounts, requests
from agent.targets.summary.projection import Held, held, reduce
from agent.targets.summary.usage import Totals
from tests.model.pods import pod


def reduced(manifest: dict[str, Any]) -> Object:
    return Object(PODS, reduce(msgspec.json.encode(manifest)))


def test_of_a_pod_its_key_its_node_and_what_it_takes_are_kept() -> None:
    manifest = pod(metadata={"resourceVersion": "7"})
    manifest["spec"] |= {"nodeName": "n1", "overhead": {"cpu": "1"}}
    manifest["spec"]["containers"][0] |= {
        "resources": {"requests": {"memory": "1Gi"}},
        "ports": [{"containerPort": 8080, "hostPort": 80, "protocol": "TCP"}],
    }
    one = reduced(manifest)
    assert (one.key, one.version, one.node_name) == (("default", "web-abc12"), "7", "n1")
    assert held(one) == Held(amounts({"cpu": "1", "memory": "1Gi", "pods": "1"}), ["TCP/80"])
    assert len(one.raw) < 300
    manifest["metadata"]["labels"] = {"app": "web", names.LABEL_PARENT_CLUSTER_UID: "u1"}
    delegate = reduced(manifest)
    assert (held(one).source, held(delegate).source, delegate.labels) == ("", "u1", {})
    assert held(one).requests == requests(manifest["spec"])


def test_a_resize_under_way_is_kept() -> None:
    manifest = pod()
    manifest["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    manifest["status"] = {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]}
    assert held(reduced(manifest)).requests == amounts({"cpu": "3", "pods": "1"})
    manifest["status"]["conditions"] = [{"type": "PodResizePending", "reason": "Infeasible", "status": "True"}]
    manifest["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "9"}}
    assert held(reduced(manifest)).requests == amounts({"cpu": "3", "pods": "1"})


def test_a_pod_with_nothing_in_it_can_be_read() -> None:
    one = reduced({"metadata": {"name": "p"}})
    assert (one.node_name, held(one)) == ("", Held(amounts({"pods": "1"})))


HELD = st.builds(
    lambda cpu, ports, source: Held({"pods": 1} | ({"cpu": cpu} if cpu else {}), sorted(ports), source),
    st.integers(0, 3),
    st.sets(st.sampled_from(["TCP/1", "TCP/2"])),
    st.sampled_from(["", "here", "there"]),
)
PLACED = st.tuples(st.sampled_from(["a", "b"]), HELD)
CHANGES = st.lists(st.tuples(st.integers(0, 4), st.none() | PLACED), max_size=40)


@given(CHANGES)
def test_running_totals_equal_the_sum_over_the_pods_that_are_there(
    changes: list[tuple[int, tuple[str, Held] | None]],
) -> None:
    totals = Totals()
    there: dict[int, tuple[str, Held]] = {}
    for number, now in changes:
        if number in there:
            totals.remove(*there.pop(number))
        if now is not None:
            totals.add(*now)
            there[number] = now
    afresh = Totals()
    for placed in there.values():
        afresh.add(*placed)
    assert totals.taken == afresh.taken
    assert totals.taken.keys() == {node for node, _ in there.values()}
    assert totals.delegates == afresh.delegates
    assert all(totals.delegates.values())
    assert "" not in totals.delegates
    assert all(min(taken.amounts.values()) > 0 for taken in totals.taken.values())
    assert all(count > 0 for taken in totals.taken.values() for count in taken.ports.values())
