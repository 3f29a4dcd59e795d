"""Pods of lost targets: what is next for the pods of an owner."""

from dataclasses import replace

from agent.controllers.mover.decide import decide
from agent.controllers.mover.view import Create, Owner, Pod

WEB = Owner("ReplicaSet", "web", "surge", replicas=6, surge=1)
LOST = [Pod(f"web-{number}", f"u{number}", cause="Lost", answers=False) for number in range(6)]
AWAY = [replace(pod, cause="Retire", answers=True) for pod in LOST]


def replaced(owner: Owner, *pods: Pod) -> list[str]:
    """Names of the pods for which a replacement is created."""
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
