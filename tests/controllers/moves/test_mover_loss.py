"""Next steps for the pods of one owner whose target is lost, or whose cluster may still return."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from agent.api import names
from agent.api.kinds import PODS
from agent.kube.client import encode
from agent.kube.store import Object
from agent.moves.mover.controller import Mover
from agent.moves.mover.decide import decide
from agent.moves.mover.facts import owner_of
from agent.moves.mover.view import Create, Evict, Mark, Owner, Pod, Tell
from agent.runtime.workqueue import WorkQueue
from tests.controllers.offline import offline

WEB = Owner("ReplicaSet", "web", "surge", replicas=6, surge=1)
LOST = [Pod(f"web-{number}", f"u{number}", cause="Lost", answers=False) for number in range(6)]
AWAY = [replace(pod, cause="Retire", answers=True) for pod in LOST]
NOT_LISTED = "but its address is not listed in target ap"


def replaced(owner: Owner, *pods: Pod) -> list[str]:
    """Return the names of the pods for which a replacement is created."""
    return [action.old.name for action in decide(owner, pods).actions if isinstance(action, Create)]


def new_of(pod: Pod, **fields: bool) -> Pod:
    new = Pod(f"n-{pod.name}", f"n-{pod.uid}", owned=False, selected=False, replaces=pod.uid)
    return replace(new, **fields)


def test_lost_pods_of_an_owner_are_replaced_all_at_once() -> None:
    assert replaced(WEB, *LOST) == [pod.name for pod in LOST]
    begun = [new_of(pod, placed=False, available=False) for pod in LOST[:2]]
    assert replaced(WEB, *LOST, *begun) == [pod.name for pod in LOST[2:]]
    assert replaced(WEB, *LOST, replace(begun[0], waits=True)) == [pod.name for pod in LOST[1:]]


def test_pods_that_serve_are_replaced_a_few_at_a_time_also_beside_lost_ones() -> None:
    assert replaced(WEB, *AWAY) == ["web-0"]
    assert replaced(WEB, *[replace(pod, answers=True) for pod in LOST]) == ["web-0"], "its cluster answers all the same"
    mixed = [*AWAY[:3], *LOST[3:]]
    assert replaced(WEB, *mixed) == ["web-3", "web-4", "web-5", "web-0"]
    begun = [new_of(pod, placed=False, available=False) for pod in LOST[3:]]
    assert replaced(WEB, *mixed, *begun) == ["web-0"]
    assert replaced(WEB, *mixed, *begun, new_of(AWAY[0], available=False)) == []


def test_a_quota_holds_lost_pods_too() -> None:
    assert replaced(replace(WEB, refused="exceeded quota"), *LOST) == []


def test_an_owner_keeps_its_place_in_the_queue_after_a_look_that_found_nothing_to_do() -> None:
    mover: Any = Mover.__new__(Mover)
    forgets: Any = SimpleNamespace(forget=lambda what: None)
    mover.queue, mover._priorities, mover._busy, mover._busy_by_uid, mover._acted = WorkQueue(), {}, {}, {}, {}
    mover._announcements = mover._gather = mover._causes = mover._actions = forgets
    mover._writer = SimpleNamespace(refusals={})
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}
    metadata = {"name": "web-0", "uid": "u0", "namespace": "shop", "ownerReferences": [reference]}
    pod = Object(PODS, encode({"metadata": metadata, "spec": {"priority": 9}}))
    mover._add(pod)
    mover._rest(owner_of(pod), [pod])
    assert mover.order(owner_of(pod))[0] == -9


async def test_a_terminating_pod_in_a_silent_target_asks_for_no_slot_and_has_no_owner_read() -> None:
    """Its rank would keep slots from lower ones for as long as the target is silent."""
    async with offline(Mover, moves=True) as (here, mover):
        reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "db", "controller": True}
        for name in ("db-0", "db-1"):
            metadata: dict[str, Any] = {"ownerReferences": [reference]}
            if name == "db-1":
                metadata["deletionTimestamp"] = "2026-11-30T12:00:00Z"
            spec = {"nodeName": "flotilla-eu", "schedulerName": names.SCHEDULER_PROXY}
            here.put(here.deps.proxies.informer, PODS, name, "shop", metadata=metadata, spec=spec)
        living, leaving = sorted(here.deps.proxies.informer.store, key=lambda pod: pod.name)
        assert mover._is_anything_to_do([living])
        assert not mover._is_anything_to_do([leaving])
        mover._limits = SimpleNamespace(may_begin=lambda rank: False)  # type: ignore[assignment]
        assert mover._may_begin(owner_of(living), [living, leaving]), "none of them has to move yet"


def told(owner: Owner, *pods: Pod) -> list[Tell]:
    return [action for action in decide(owner, pods).actions if isinstance(action, Tell) and action.warns]


def test_clusters_that_are_waited_for_are_named_on_the_pod_and_by_an_event() -> None:
    new = replace(new_of(AWAY[0]), announced=False, lacking=NOT_LISTED)
    (said,) = told(WEB, *AWAY[:1], new)
    assert (said.pod.name, said.reason) == ("web-0", "Moving")
    assert said.message.endswith(f"its replacement {new.name} is ready, {NOT_LISTED}")
    asked = replace(AWAY[0], told=f"{said.reason}: {said.message}")
    assert told(WEB, asked, new) == [], "once"
    assert [Mark] == [type(each) for each in decide(WEB, [asked, replace(new, announced=True)]).actions]


def test_the_same_is_said_of_pods_that_are_evicted_by_one_event_for_all() -> None:
    db = Owner("StatefulSet", "db", "evict", replicas=3)
    there = Pod("db-2", "d2", announced=False, lacking=NOT_LISTED)
    waiting = [Pod(f"db-{number}", f"d{number}", cause="Retire") for number in range(2)]
    (said,) = told(db, *waiting, there)
    assert (said.reason, f"pod db-2 of its owner is ready, {NOT_LISTED}" in said.message) == ("Held", True)
    actions = decide(db, [*waiting, replace(there, announced=True)]).actions
    assert sum(isinstance(each, Evict) for each in actions) == 1
