"""Plans are reproducible by seed, plausible, and carried out."""

import itertools
from collections import defaultdict
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hack.lab.soak.errors import SoakError
from hack.lab.soak.plan import AT_ONCE, LONGEST_SECONDS, Fault, Head, Plan, Step, claims, make, parse, wanted

Test = Callable[..., None]


def seeds(test: Test) -> Test:
    """Run a test with plans of many sizes, without a deadline."""
    given_all = given(st.integers(0, 1 << 32), st.sampled_from([0.5, 1.0, 5.0]), st.sampled_from([20, 60, 500]))
    return settings(deadline=None)(given_all(test))


def step(verb: str, name: str, pods: int, **more: object) -> Step:
    return Step(0.0, verb, "Deployment", name, pods, **more)  # type: ignore[arg-type]


@seeds
def test_a_plan_is_a_function_of_its_seed_and_survives_being_written(seed: int, minutes: float, pods: int) -> None:
    plan = make(seed, minutes, pods)
    assert make(seed, minutes, pods) == plan
    assert parse(plan.dump()) == plan
    assert make(seed + 1, minutes, pods).events != plan.events


@seeds
def test_nothing_has_two_faults_at_a_time_and_of_two_agents_one_is_left(seed: int, minutes: float, pods: int) -> None:
    victims = defaultdict(list)
    faults = make(seed, minutes, pods).faults
    for fault in faults:
        process = "agents" if fault.process in ("leader", "standby") else fault.process
        victims[fault.cluster, process].append(fault)
        assert sum(each.at <= fault.at < each.end for each in faults) <= AT_ONCE
    for found in victims.values():
        assert all(first.end <= second.at for first, second in itertools.pairwise(found))


@seeds
def test_faults_last_as_long_as_they_may_and_leave_time_to_recover(seed: int, minutes: float, pods: int) -> None:
    plan = make(seed, minutes, pods)
    for fault in plan.faults:
        assert 0 <= fault.seconds <= LONGEST_SECONDS
        assert fault.end <= plan.seconds
        assert fault.seconds <= max(1.0, (plan.seconds - fault.at) / 2) + 0.01


@seeds
def test_users_change_only_what_there_is(seed: int, minutes: float, pods: int) -> None:
    plan = make(seed, minutes, pods)
    assert plan.steps
    left = wanted(plan.steps)
    assert all(each.pods >= 1 for each in left.values())
    assert [event.at for event in plan.events] == sorted(event.at for event in plan.events)


def test_a_long_plan_has_every_fault_every_workload_and_about_as_many_pods_as_asked_for() -> None:
    plan = make(7, 20, 500)
    assert {fault.what for fault in plan.faults} == {"kill", "stop", "restart", "cut", "requests", "replies"}
    assert {fault.process for fault in plan.faults} == {
        "leader", "standby", "webhook", "kube-apiserver", "etcd", "link"
    }  # fmt: skip
    assert {step.sort for step in plan.steps} == {"Deployment", "StatefulSet", "Job", "Flop", "Misfit"}
    assert {step.verb for step in plan.steps} == {"create", "scale", "roll", "delete"}
    assert 350 <= sum(step.pods for step in wanted(plan.steps).values()) <= 650
    assert any(fault.seconds > 30 for fault in plan.faults)


def test_links_lose_packets_only_between_the_source_and_a_target() -> None:
    found = [fault for seed in range(20) for fault in make(seed, 5, 20).faults if fault.what in ("requests", "replies")]
    assert found
    assert "cd" not in {fault.cluster for fault in found}


def test_what_is_wanted_in_the_end_is_what_was_created_as_it_was_changed_last() -> None:
    steps = [
        step("create", "a", 3, files=True),
        step("create", "b", 2),
        step("scale", "a", 5),
        step("roll", "a", 5),
        step("delete", "b", 2),
    ]
    assert wanted(steps) == {"a": step("create", "a", 5, files=True)}


def test_claims_are_counted_by_the_most_pods_of_those_that_have_them() -> None:
    steps = [step("create", "a", 2, claims=True), step("scale", "a", 4), step("scale", "a", 1), step("create", "b", 9)]
    assert claims(steps) == 4


@pytest.mark.parametrize(
    "text",
    [b"", b"no plan", b'{"event":"fault","at":1}', Plan(Head(1, 1, 1), ()).dump() * 2],
    ids=["nothing", "no JSON", "no head", "two heads"],
)
def test_what_is_no_plan_is_refused(text: bytes) -> None:
    with pytest.raises(SoakError, match="this is no plan"):
        parse(text)


def test_a_fault_is_over_after_its_time() -> None:
    assert Fault(10.0, "stop", "us", "leader", 2.5).end == 12.5
