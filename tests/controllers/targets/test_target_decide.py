"""Conditions of Targets, and the release of a removed Target."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agent.clusters.health.agent_health import AgentRecord, AgentState
from agent.clusters.health.refusal_backoff import Refusal
from agent.clusters.target import Record, State
from agent.targets.target.decide import (
    Conditions,
    DeletePod,
    FreePod,
    Leaving,
    Pod,
    became_worse,
    conditions,
    drain,
    health,
    only_words_differ,
    refusal_told,
    settles_in,
    unconnected,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OURS = "multicluster.admiralty.io/default-c1"
OTHER = "multicluster.admiralty.io/default-c2"


ALIVE = AgentRecord(AgentState.READY, "alive")
SILENT = AgentRecord(AgentState.SILENT, "see that its agent runs")


def told(
    state: State,
    message: str = "m",
    agent: AgentRecord | None = None,
    old: Conditions | None = None,
    ignored: str = "",
    refusal: Refusal | None = None,
) -> Conditions:
    return conditions(old, health(Record(state, message, NOW), agent, ignored=ignored, refusal=refusal), 1, NOW)


def values(found: Conditions) -> dict[str, str]:
    return {condition["type"]: condition["status"] for condition in found}


def test_a_kubeconfig_that_verifies_nothing_is_reported_whether_or_not_the_target_answers() -> None:
    first = conditions(None, health(Record(State.READY, "m", NOW), ALIVE), 1, NOW)
    assert "Secure" not in values(first)
    for state in (State.READY, State.UNREACHABLE):
        bad = conditions(first, health(Record(state, "m", NOW), ALIVE, insecure="field: remedy"), 1, NOW)
        (said,) = [each for each in bad if each["type"] == "Secure"]
        assert (said["status"], said["reason"], said["message"]) == ("False", "InsecureKubeconfig", "field: remedy")
    assert values(bad)["Ready"] == "False"
    mended = conditions(bad, health(Record(State.READY, "m", NOW), ALIVE), 1, NOW)
    assert (values(mended)["Secure"], values(mended)["Ready"]) == ("True", "True")


def test_objects_that_cannot_be_read_are_named_and_their_target_goes_on_being_ready() -> None:
    record = Record(State.READY, "m", NOW)
    first = conditions(None, health(record, ALIVE), 1, NOW)
    assert "ObjectsReadable" not in values(first)
    bad = conditions(first, health(record, ALIVE, unreadable="podchaperons a/b (Expected `str`)"), 1, NOW)
    assert (values(bad)["ObjectsReadable"], values(bad)["Ready"]) == ("False", "True")
    (told_of,) = [each["message"] for each in bad if each["type"] == "ObjectsReadable"]
    assert told_of.endswith("podchaperons a/b (Expected `str`)")
    assert values(conditions(bad, health(record, ALIVE), 1, NOW))["ObjectsReadable"] == "True"


@pytest.mark.parametrize(
    ("state", "want"),
    [
        (State.READY, ("True", "True", "True")),
        (State.UNREACHABLE, ("False", "Unknown", "False")),
        (State.UNAUTHORIZED, ("True", "False", "False")),
        (State.FORBIDDEN, ("True", "False", "False")),
        (State.NOT_INSTALLED, ("True", "True", "False")),
        (State.WRONG_CLUSTER, ("True", "True", "False")),
        (State.FAILING, ("True", "Unknown", "False")),
        (State.CONNECTING, ("Unknown", "Unknown", "False")),
    ],
)
def test_each_state_has_its_conditions(state: State, want: tuple[str, str, str]) -> None:
    assert tuple(values(told(state))[kind] for kind in ("Reachable", "Authorized", "Ready")) == want
    reasons = {condition["reason"] for condition in told(state) if condition["type"] != "AgentReady"}
    assert reasons == {state.value}


def test_a_target_that_cannot_be_tried_says_nothing_of_its_cluster() -> None:
    found = conditions(None, unconnected("SecretNotFound", "create it"), 1, NOW)
    assert values(found) == {
        "Reachable": "Unknown",
        "Authorized": "Unknown",
        "AgentReady": "Unknown",
        "Ready": "False",
    }


def test_conditions_of_others_survive() -> None:
    other: dict[str, Any] = {"type": "Sunny", "status": "True"}
    assert conditions([other], unconnected("x", "y"), 1, NOW)[0] == other


@pytest.mark.parametrize(
    ("state", "status", "ready"),
    [
        (AgentState.READY, "True", "True"),
        (AgentState.SILENT, "False", "False"),
        (AgentState.TOO_OLD, "False", "False"),
        (AgentState.INVALID_SUMMARY, "False", "False"),
        (AgentState.UNKNOWN, "Unknown", "True"),
    ],
)
def test_a_target_is_ready_unless_its_agent_does_not_work(state: AgentState, status: str, ready: str) -> None:
    found = told(State.READY, agent=AgentRecord(state, "why"))
    assert values(found) == {"Reachable": "True", "Authorized": "True", "AgentReady": status, "Ready": ready}
    by_type = {condition["type"]: condition for condition in found}
    assert (by_type["AgentReady"]["reason"], by_type["AgentReady"]["message"]) == (state.value, "why")
    assert by_type["Ready"]["reason"] == (state.value if ready == "False" else "Connected")


def test_nothing_is_said_of_the_agent_of_a_target_that_cannot_be_asked() -> None:
    assert values(told(State.UNREACHABLE, agent=ALIVE))["AgentReady"] == "Unknown"


def test_what_was_said_of_an_agent_stays_until_something_else_is_known() -> None:
    assert "AgentReady" not in values(told(State.READY))
    silent = told(State.READY, agent=SILENT)
    assert told(State.READY, old=silent) == silent
    assert values(told(State.READY, agent=ALIVE, old=silent))["Ready"] == "True"


def test_a_quota_that_does_not_count_is_told_until_every_one_does() -> None:
    assert "QuotasReadable" not in values(told(State.READY))
    told_of = told(State.READY, ignored="ResourceQuota a/b does not count")
    by_type = {condition["type"]: condition for condition in told_of}
    assert by_type["Ready"]["status"] == "True"
    assert by_type["QuotasReadable"]["status"] == "False"
    assert by_type["QuotasReadable"]["message"] == "ResourceQuota a/b does not count"
    assert values(told(State.READY, old=told_of))["QuotasReadable"] == "True"


def test_a_target_that_refuses_pods_says_so_in_its_own_words_until_it_takes_them() -> None:
    assert "AcceptsPods" not in values(told(State.READY))
    refusing = told(State.READY, refusal=Refusal("ServerError", "shop", "etcdserver: no space"))
    by_type = {condition["type"]: condition for condition in refusing}
    assert by_type["Ready"]["status"] == "True"
    assert (by_type["AcceptsPods"]["status"], by_type["AcceptsPods"]["reason"]) == ("False", "ServerError")
    assert by_type["AcceptsPods"]["message"].endswith(": etcdserver: no space")
    assert values(told(State.READY, old=refusing))["AcceptsPods"] == "True"


def test_what_a_target_tells_of_its_refusing_pods_is_about_one_namespace() -> None:
    refusing = {"status": {"conditions": told(State.READY, refusal=Refusal("ServerError", "shop", "no space"))}}
    assert refusal_told(refusing, "shop").endswith("no space")
    assert refusal_told(refusing, "sho") == ""
    again = {"status": {"conditions": told(State.READY, old=refusing["status"]["conditions"])}}
    assert refusal_told(again, "shop") == ""
    assert refusal_told({}, "shop") == ""


def test_an_agent_that_falls_silent_is_worth_an_event() -> None:
    assert became_worse(told(State.READY, agent=ALIVE), told(State.READY, agent=SILENT))


def test_an_event_is_due_when_a_target_stops_working_or_fails_in_another_way() -> None:
    assert became_worse(None, told(State.UNREACHABLE))
    assert became_worse(told(State.READY), told(State.UNREACHABLE))
    assert became_worse(told(State.UNREACHABLE), told(State.UNAUTHORIZED))
    assert not became_worse(told(State.UNREACHABLE), told(State.UNREACHABLE, "other words"))
    assert not became_worse(told(State.UNREACHABLE), told(State.READY))


def test_other_words_are_told_from_other_states() -> None:
    assert only_words_differ(told(State.UNREACHABLE), told(State.UNREACHABLE, "other words"))
    assert not only_words_differ(told(State.READY), told(State.UNREACHABLE))
    assert not only_words_differ(None, told(State.READY))


def test_a_target_that_is_connecting_is_given_five_seconds() -> None:
    record = Record(State.CONNECTING, "connecting", NOW)
    assert settles_in(record, NOW + timedelta(seconds=2)) == 3.0
    assert settles_in(record, NOW + timedelta(seconds=9)) == 0.0
    assert settles_in(Record(State.READY, "connected", NOW), NOW) == 0.0


def pod(**fields: Any) -> Pod:
    base: dict[str, Any] = {
        "here": False,
        "claimed": False,
        "chaperon": "none",
        "deleting": False,
        "finalizers": (OURS,),
    }
    return Pod(key=("default", "p"), uid="u", version="1", **{**base, **fields})


def leaving(*pods: Pod, **fields: Any) -> Leaving:
    base: dict[str, Any] = {"forced": False, "ready": True, "age": 1.0, "release_after": 10.0, "chaperons": False}
    return Leaving(finalizer=OURS, pods=pods, **{**base, **fields})


def test_a_target_without_pods_and_chaperons_is_drained() -> None:
    assert drain(leaving()).drained


def test_a_target_waits_for_its_last_chaperon() -> None:
    step = drain(leaving(chaperons=True))
    assert (step.drained, step.reason) == (False, "Draining")


@pytest.mark.parametrize("ready", [True, False])
def test_a_target_waits_for_chaperons_on_their_way(ready: bool) -> None:
    step = drain(leaving(ready=ready, unsure=True))
    assert (step.drained, step.reason) == (False, "Draining" if ready else "Unreachable")
    assert drain(leaving(ready=ready, unsure=True, forced=True)).drained


def test_a_pod_that_may_have_a_chaperon_there_is_held_until_that_is_known() -> None:
    doubtful = pod(claimed=True, chaperon="doubtful")
    step = drain(leaving(doubtful))
    assert step.actions == ()
    assert not step.drained
    assert drain(leaving(doubtful, forced=True)).actions == (FreePod(doubtful, ()),)


def test_pods_that_run_there_are_deleted() -> None:
    for placed in (pod(here=True), pod(chaperon="placed")):
        step = drain(leaving(placed))
        assert step.actions == (DeletePod(placed),)
        assert not step.drained


def test_a_pod_that_never_went_there_only_loses_the_finalizer() -> None:
    waiting = pod(finalizers=(OURS, OTHER, "example.com/x"))
    assert drain(leaving(waiting)).actions == (FreePod(waiting, (OTHER, "example.com/x")),)
    assert drain(leaving(waiting, ready=False)).actions == (FreePod(waiting, (OTHER, "example.com/x")),)


def test_a_claimed_pod_is_deleted_when_nobody_can_tell_whether_it_has_a_delegate() -> None:
    claimed = pod(claimed=True)
    assert drain(leaving(claimed, ready=False)).actions == (DeletePod(claimed),)
    assert drain(leaving(claimed)).actions == (FreePod(claimed, ()),)


@pytest.mark.parametrize("ready", [True, False])
def test_a_pod_that_has_only_a_candidate_there_is_let_go_when_that_is_gone(ready: bool) -> None:
    waiting = pod(chaperon="candidate")
    step = drain(leaving(waiting, ready=ready, chaperons=True))
    assert step.actions == ()
    assert not step.drained
    assert drain(leaving(waiting, ready=ready, forced=True)).actions == (FreePod(waiting, ()),)


def test_a_terminating_pod_is_left_to_feedback() -> None:
    step = drain(leaving(pod(here=True, deleting=True)))
    assert step.actions == ()
    assert not step.drained


def test_a_lost_target_stays_and_says_that_delegates_may_still_run() -> None:
    for view in (leaving(pod(deleting=True), ready=False), leaving(ready=False, age=11.0)):
        step = drain(view)
        assert (step.drained, step.reason) == (False, "Unreachable")
        assert "may still run there" in step.message
        assert 'multicluster/force-remove="true"' in step.message


def test_a_lost_target_says_why_it_cannot_be_reached() -> None:
    view = leaving(ready=False, age=11.0, why="the target refuses the credentials: renew the kubeconfig Secret")
    assert drain(view).message.endswith("(the target refuses the credentials: renew the kubeconfig Secret)")


def test_a_target_that_leads_to_another_cluster_is_not_drained_by_what_that_one_does_not_have() -> None:
    there = pod(here=True)
    step = drain(leaving(there, ready=False, elsewhere=True))
    assert (step.actions, step.drained, step.reason) == ((DeletePod(there),), False, "Unreachable")
    assert "leads to another cluster, so that delegates may still run in the one before" in step.message


def test_a_lost_target_without_pods_goes_before_they_could_have_been_released() -> None:
    assert drain(leaving(ready=False, age=1.0)).drained


def test_a_forced_removal_does_not_wait_but_deletes_the_pods() -> None:
    step = drain(leaving(pod(here=True), forced=True, ready=False, chaperons=True))
    assert step.drained
    assert len(step.actions) == 1
