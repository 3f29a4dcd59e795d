"""Health of a target's agent, derived from its leases and its version."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.api.kinds import CLUSTER_SUMMARIES
from agent.api.names import ANNOTATION_AGENT_VERSION
from agent.clusters.health.agent_health import AgentRecord, AgentState, Lease, Pulse, conclude, flaw_of, readable_leases
from agent.kube.store import Object
from agent.model.source import Flaw
from tests.examples import examples
from tests.model.test_summaryflaw import VALUES

MARGIN = 5.0
LIMIT = 15 + MARGIN


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["metadata", "spec", "leaseDurationSeconds", "holderIdentity"]), inner)
    ),
    max_leaves=10,
)


@given(st.lists(JSON.map(json.dumps).map(str.encode) | st.just(b"[" * 5000), max_size=3))
@settings(max_examples=examples(100))
def test_any_list_of_leases_gives_a_verdict(items: list[bytes]) -> None:
    found = readable_leases(msgspec.Raw(item) for item in items)
    pulse = Pulse(MARGIN)
    for moment in (0.0, 1.0, 100.0):
        record = pulse.read(found, moment)
        assert record is None or record.message


@pytest.mark.parametrize("version", ["9" * 5000 + ".1", "0." + "9" * 5000, "²", "v", "", "-1.2"])
def test_a_version_that_makes_no_sense_is_none(version: str) -> None:
    alive = AgentRecord(AgentState.READY, "alive")
    raw = {"metadata": {"name": "singleton", "annotations": {ANNOTATION_AGENT_VERSION: version}}}
    assert conclude(alive, Object(CLUSTER_SUMMARIES, msgspec.json.encode(raw))) is alive


def lease(renewed: str, holder: str | None = "agent-0", *, namespace: str = "flotilla", duration: float = 15) -> Lease:
    return Lease(Lease.Metadata(namespace), Lease.Spec(holder, duration, renewed))


def state(record: AgentRecord | None) -> AgentState | None:
    return record.state if record is not None else None


def test_an_agent_is_alive_once_its_lease_has_been_seen_to_change() -> None:
    pulse = Pulse(MARGIN)
    assert pulse.read([lease("10:00")], 0) is None
    assert state(pulse.read([lease("10:02")], 2)) is AgentState.READY
    assert state(pulse.read([lease("10:02")], 2 + LIMIT)) is AgentState.READY


def test_an_agent_is_silent_when_its_lease_has_not_changed_for_its_duration_and_a_margin() -> None:
    pulse = Pulse(MARGIN)
    pulse.read([lease("10:00")], 0)
    pulse.read([lease("10:02")], 2)
    silent = pulse.read([lease("10:02")], 2 + LIMIT + 0.1)
    assert silent is not None
    assert silent.state is AgentState.SILENT
    assert "lease flotilla/admiralty-controller-manager" in silent.message
    assert state(pulse.read([lease("10:30")], 30)) is AgentState.READY


def test_a_lease_that_never_changed_is_a_dead_agents_after_the_same_time() -> None:
    pulse = Pulse(MARGIN)
    assert pulse.read([lease("10:00")], 100) is None
    assert pulse.read([lease("10:00")], 100 + LIMIT) is None
    assert state(pulse.read([lease("10:00")], 100 + LIMIT + 0.1)) is AgentState.SILENT


@pytest.mark.parametrize("renewed", ["1970-01-01T00:00:00Z", "2999-01-01T00:00:00Z"], ids=["behind", "ahead"])
def test_the_targets_clock_makes_no_difference(renewed: str) -> None:
    pulse = Pulse(MARGIN)
    pulse.read([lease(renewed)], 0)
    assert state(pulse.read([lease(renewed[:-1] + ".5Z")], 2)) is AgentState.READY
    assert state(pulse.read([lease(renewed[:-1] + ".5Z")], 60)) is AgentState.SILENT


@pytest.mark.parametrize("holder", ["", None], ids=["empty", "absent"])
def test_a_lease_that_was_let_go_of_means_no_agent_unless_another_takes_it_soon(holder: str | None) -> None:
    pulse = Pulse(MARGIN)
    pulse.read([lease("10:00")], 0)
    pulse.read([lease("10:02")], 2)
    released = lease("10:02", holder, duration=1)
    assert pulse.read([released], 3) is None
    assert state(pulse.read([lease("10:04", "agent-1")], 5)) is AgentState.READY
    pulse.read([released], 6)
    assert state(pulse.read([released], 6 + 1 + MARGIN + 0.1)) is AgentState.SILENT


def test_one_living_agent_is_enough_where_an_old_installation_left_its_lease() -> None:
    pulse = Pulse(MARGIN)
    old = lease("09:00", namespace="old")
    assert pulse.read([old, lease("10:00")], 0) is None
    assert state(pulse.read([old, lease("10:30")], 30)) is AgentState.READY
    assert state(pulse.read([old, lease("10:30")], 90)) is AgentState.SILENT


def test_a_target_without_such_a_lease_has_an_agent_that_nothing_is_known_of() -> None:
    pulse = Pulse(MARGIN)
    record = pulse.read([], 0)
    assert record is not None
    assert (record.state, record.usable) == (AgentState.UNKNOWN, True)


def test_a_lease_without_a_spec_can_be_read() -> None:
    empty = msgspec.json.decode(b'{"metadata":{"name":"x","namespace":"a"}}', type=Lease)
    assert Pulse(MARGIN).read([empty], 0) is None


def summary(version: str | None) -> Object:
    annotations = {"multicluster/agent-version": version} if version is not None else {}
    return Object(CLUSTER_SUMMARIES, msgspec.json.encode({"metadata": {"name": "s", "annotations": annotations}}))


ALIVE = AgentRecord(AgentState.READY, "alive")
SILENT = AgentRecord(AgentState.SILENT, "silent")


@pytest.mark.parametrize("version", [None, "", "nonsense", "0.1.0", "v0.1.0", "0.2", "1.0.0", "0.10.3"])
def test_an_agent_that_is_new_enough_or_tells_no_version_fits(version: str | None) -> None:
    assert conclude(ALIVE, summary(version)) is ALIVE
    assert conclude(None, summary(version)) is None


def test_a_target_without_summary_is_judged_by_its_lease() -> None:
    assert conclude(SILENT, None) is SILENT


@pytest.mark.parametrize("pulse", [ALIVE, None, AgentRecord(AgentState.UNKNOWN, "?")])
def test_an_agent_that_is_too_old_is_told_apart_with_the_remedy(pulse: AgentRecord | None) -> None:
    record = conclude(pulse, summary("0.0.9"))
    assert record is not None
    assert (record.state, record.usable) == (AgentState.TOO_OLD, False)
    assert "0.0.9" in record.message
    assert "needs 0.1 or later" in record.message


def test_a_dead_agent_is_dead_before_it_is_old() -> None:
    assert conclude(SILENT, summary("0.0.9")) is SILENT


def test_an_agent_whose_summary_cannot_be_used_is_told_with_the_remedy() -> None:
    flaw = Flaw("allocatable[cpu]", "'lots' is not a quantity")
    record = conclude(ALIVE, summary("0.1.0"), flaw)
    assert record is not None
    assert (record.state, record.usable) == (AgentState.INVALID_SUMMARY, False)
    assert "ClusterSummary singleton in the target: allocatable[cpu]: 'lots' is not a quantity" in record.message
    assert conclude(SILENT, summary("0.1.0"), flaw) is SILENT
    old = conclude(ALIVE, summary("0.0.9"), flaw)
    assert old is not None
    assert old.state is AgentState.TOO_OLD


@pytest.mark.parametrize("version", ["9" * 5000 + ".1", "1." + "9" * 5000, "٣.١"])
def test_a_version_of_thousands_of_digits_is_none(version: str) -> None:
    assert conclude(ALIVE, summary(version)) is ALIVE


@given(VALUES, st.integers(-(10**30), 10**30) | st.text())
def test_whatever_an_api_server_gives_as_a_summary_or_a_lease_is_judged(value: Any, version: Any) -> None:
    metadata = {"name": "singleton", "annotations": {"multicluster/agent-version": version}}
    told = Object(CLUSTER_SUMMARIES, msgspec.json.encode({"metadata": metadata, "allocatable": value}))
    assert conclude(ALIVE, told, flaw_of(told)) is not None
