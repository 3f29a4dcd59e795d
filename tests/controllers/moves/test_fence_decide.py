"""Conditions under which a source may rely on a pod's fence."""

from dataclasses import replace

import pytest

from agent.api.names import fencing
from agent.moves.fence.decide import FencedPod, MarkChaperon, Note, decide

LEASE = f"{fencing.LEASE_PREFIX}U-eu"
MARKED = {fencing.ANNOTATION_LEASE: LEASE}
KEPT = {**MARKED, fencing.ANNOTATION_KEPT_BY: "agent-0 90"}
POD = FencedPod(LEASE, 60.0, annotations=KEPT, replicas=frozenset({"agent-0"}))


def test_a_chaperon_is_marked_first_and_then_what_its_agent_promises_is_noted() -> None:
    assert decide(replace(POD, annotations={})) == MarkChaperon(LEASE)
    assert decide(POD) == Note(90.0)


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(replace(POD, annotations=MARKED), id="nothing is promised"),
        pytest.param(replace(POD, replicas=frozenset()), id="the agent is not alive"),
        pytest.param(replace(POD, refusal="forbidden"), id="the Lease is refused"),
        pytest.param(replace(POD, annotations={**KEPT, fencing.ANNOTATION_FENCED: "since"}), id="it was stopped"),
        pytest.param(replace(POD, term=120.0), id="promised for a shorter term"),
        pytest.param(replace(POD, spec={"terminationGracePeriodSeconds": 31}), id="less than its own grace"),
    ],
)
def test_where_no_fence_is_kept_the_user_is_told_why(pod: FencedPod) -> None:
    found = decide(pod)
    assert isinstance(found, Note)
    assert found.seconds is None
    assert found.why


def test_nothing_is_concluded_from_a_chaperon_that_is_not_listed_yet() -> None:
    """A new leader has connected to the target, and its chaperons are still being read."""
    assert decide(replace(POD, annotations=None, listed=False)) is None
    assert decide(replace(POD, annotations=None)) == Note(None)


def test_no_promise_counts_while_the_lease_waits_for_a_longer_term() -> None:
    longer = {**MARKED, fencing.ANNOTATION_KEPT_BY: "agent-0 900"}
    assert decide(replace(POD, annotations=longer, growing=True)) == Note(None)
