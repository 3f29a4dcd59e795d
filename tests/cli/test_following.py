"""Finding the replacement of a pod that moves, or that none is expected; without clusters."""

from typing import Any

import msgspec
import pytest

from agent.api.kinds import JOBS, PODS, REPLICA_SETS, STATEFUL_SETS, Kind
from agent.cli.moving.following import Following, nobody_makes, wanted
from agent.kube.store import Object
from tests.cli.moving import EU, MOVED, SINCE, US, pod

Raw = dict[str, Any]

OLD, OTHER = pod("web-1", EU), pod("web-2", EU)
N = "u-web-n"


def following(one: Object = OLD) -> Following:
    return Following(one, [OLD, OTHER])


def reborn(one: Object, **metadata: Any) -> Object:
    """Return the same pod with changed metadata."""
    raw = one.decode()
    return Object(PODS, msgspec.json.encode({**raw, "metadata": {**raw["metadata"], **metadata}}))


def test_a_replacement_is_followed_once_its_owner_has_adopted_it_and_the_old_one_ends() -> None:
    seen = following()
    waits = pod("web-n", US, controlled=False, replaces="u-web-1", moved=MOVED)
    assert seen.see([OLD, OTHER, waits]) == []
    assert {each.name for each in seen.of([OLD, OTHER, waits])} == {"web-1", "web-n"}
    marked, adopted = pod("web-1", EU, replaced_by=N), pod("web-n", US, moved=MOVED)
    assert seen.see([marked, OTHER, adopted]) == []
    ending = pod("web-1", EU, replaced_by=N, going=True)
    assert [(old.name, new.name) for old, new in seen.see([ending, OTHER, adopted])] == [("web-1", "web-n")]
    assert seen.see([OTHER, adopted]) == []
    assert (seen.pod.uid, seen.is_going) == (N, False)


def test_all_of_that_may_have_happened_between_two_looks() -> None:
    for news in ([pod("web-n", US, moved=MOVED)], [pod("web-a", US), pod("web-n", US, moved=MOVED)]):
        seen = following()
        seen.see([OLD, OTHER, pod("web-n", US, controlled=False, replaces="u-web-1")] if len(news) > 1 else [OLD])
        ((_, new),) = seen.see([OTHER, *news])
        assert new.name == "web-n"


def test_a_replacement_that_goes_with_its_pod_is_none_and_another_is_made() -> None:
    seen = following()
    waits = pod("web-n", US, controlled=False, replaces="u-web-1")
    seen.see([OLD, OTHER, waits])
    assert seen.see([pod("web-1", EU, going=True), OTHER, waits]) == []
    assert (seen.is_going, seen.is_gone) == (True, False)
    ((_, new),) = seen.see([OTHER, pod("web-3", EU)])
    assert new.name == "web-3"
    ((old, new),) = seen.see([OTHER, pod("web-4", EU)])
    assert (old.name, new.name) == ("web-3", "web-4"), "that may be replaced as well"


def test_what_was_evicted_is_followed_to_what_its_owner_makes_next() -> None:
    seen = following()
    seen.see([OLD, OTHER])
    assert seen.see([pod("web-1", EU, going=True), OTHER]) == []
    assert seen.see([OTHER]) == []
    assert seen.is_gone
    stranger = reborn(pod("web-7", EU), ownerReferences=[])
    again = reborn(OLD, uid="u-again")
    ((_, new),) = seen.see([OTHER, stranger, pod("web-0", EU), again])
    assert new.uid == "u-again", "that of its name is the one, as of a StatefulSet"
    failed = pod("web-1", EU, phase="Failed")
    ((_, new),) = following().see([failed, OTHER, pod("web-9", EU)])
    assert new.name == "web-9", "a Job makes another while the failed one is there"


def test_what_was_there_before_takes_nobodys_place() -> None:
    seen = following()
    assert seen.see([OTHER]) == []
    assert (seen.is_going, seen.is_gone, seen.living([OLD, OTHER, pod("x", going=True)])) == (True, True, 2)


def test_a_pod_that_nothing_makes_has_nothing_in_its_place() -> None:
    alone = reborn(OLD, ownerReferences=[])
    seen = Following(alone, [alone, OTHER])
    seen.see([alone, OTHER])
    assert (seen.is_bare, seen.is_going, seen.see([OTHER]), seen.is_gone) == (True, False, [], True)
    assert nobody_makes(seen, None, None, []) == "nothing makes it again"


def gone() -> Following:
    seen = following()
    seen.see([OTHER])
    return seen


@pytest.mark.parametrize(
    ("kind", "owner", "why"),
    [
        (None, None, ""),
        (REPLICA_SETS, None, "ReplicaSet web, which has made it, is gone, too"),
        (REPLICA_SETS, {"metadata": {"uid": "another"}, "spec": {"replicas": 2}}, "is gone, too"),
        (REPLICA_SETS, {"metadata": {"uid": "rs", "deletionTimestamp": SINCE}}, "is gone, too"),
        (REPLICA_SETS, {"metadata": {"uid": "rs"}, "spec": {"replicas": 2}}, ""),
        (REPLICA_SETS, {"metadata": {"uid": "rs"}, "spec": {"replicas": 1}}, "of 1 that it wants there are 1"),
    ],
)
def test_why_nothing_takes_the_place_of_a_pod_that_is_gone_is_told(
    kind: Kind | None, owner: Raw | None, why: str
) -> None:
    found = nobody_makes(gone(), kind, owner, [OTHER])
    assert why in found if why else not found


@pytest.mark.parametrize(
    ("kind", "spec", "status", "count"),
    [
        (STATEFUL_SETS, {"replicas": 3}, {}, 3),
        (REPLICA_SETS, {}, {}, 0),
        (JOBS, {"parallelism": 2, "completions": 5}, {"succeeded": 1}, 2),
        (JOBS, {"parallelism": 2, "completions": 5}, {"succeeded": 4}, 1),
        (JOBS, {"completions": 1}, {}, 1),
        (JOBS, {"parallelism": 3}, {}, 3),
        (JOBS, {"parallelism": 3}, {"succeeded": 1}, 0),
        (JOBS, {"parallelism": 3, "suspend": True}, {}, 0),
        (JOBS, {"completions": 5}, {"conditions": [{"type": "Failed", "status": "True"}]}, 0),
    ],
)
def test_how_many_pods_an_owner_wants(kind: Kind, spec: Raw, status: Raw, count: int) -> None:
    assert wanted(kind, {"metadata": {}, "spec": spec, "status": status}) == count
    assert wanted(kind, {"metadata": {"deletionTimestamp": SINCE}, "spec": spec}) == 0
