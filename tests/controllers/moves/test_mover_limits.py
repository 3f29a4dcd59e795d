"""Limits for moves: how many may run at the same time, how many may start per second, and in which order."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from agent.api.kinds import PODS
from agent.base.clock import parse
from agent.kube.store import Object
from agent.moves.mover import limits
from agent.moves.mover.actions import Actions
from agent.moves.mover.facts import OwnerKey
from agent.moves.mover.limits import AGAIN_SECONDS, PLACES_SECONDS, STARTS_SECONDS, Limits, Starting
from agent.moves.mover.view import Create, Pod

CREATED = "2026-11-24T12:00:00Z"
BEGAN = parse(CREATED)
LOST = (True, 0)
SERVES = (False, 0)


def replacement(
    uid: str = "n", *, node: str = "us", ready: bool = False, replaces: str | None = None, cause: str = "Retire"
) -> Object:
    annotations = {"multicluster/replaces": f"old-{uid}" if replaces is None else replaces}
    annotations["multicluster/moved"] = f'{{"cause": "{cause}"}}'
    metadata = {"name": uid, "namespace": "default", "uid": uid, "creationTimestamp": CREATED}
    status = {"conditions": [{"type": "Ready", "status": str(ready)}]}
    body: dict[str, Any] = {"metadata": {**metadata, "annotations": annotations}, "spec": {"nodeName": node}}
    return Object(PODS, msgspec.json.encode({**body, "status": status}))


def of(owner: str) -> OwnerKey:
    return "ReplicaSet", "default", owner, f"uid of {owner}"


class Moves:
    """Limits with a clock that the test sets, for replacements that it creates."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, parallel: int, rate: float = 1.0) -> None:
        self.now, self.silent = 0.0, set[str]()
        monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.starting = Starting(lambda node: node not in self.silent)
        self.limits = Limits(parallel, rate, self.starting)

    def see(self, new: Object) -> None:
        """Report a new or changed replacement, as a watch does."""
        self.starting.note(None, new, self.now, BEGAN)

    def count(self) -> int:
        return len(self.starting.under_way(self.now))

    def begin(self, uid: str, rank: limits.Rank, node: str = "us", owner: str = "web") -> bool:
        """Try to begin a move; return whether it has begun."""
        may = self.limits.may_begin(rank, of(owner))
        if may:
            self.limits.begin(f"old-{uid}", rank)
            self.see(replacement(uid, node=node))
        return may


def test_a_replacement_that_is_ready_or_does_not_start_holds_up_no_other_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    moves = Moves(monkeypatch, 32)
    moves.see(replacement(replaces=""))
    assert moves.count() == 0, "no replacement"
    moves.now = 100.0
    moves.starting.note(None, replacement(), 100.0, BEGAN + timedelta(seconds=20))
    assert moves.count() == 1
    moves.now = 80.0 + STARTS_SECONDS - 1
    assert moves.count() == 1
    moves.now = 80.0 + STARTS_SECONDS
    assert moves.count() == 0
    moves.now = 999.0
    moves.starting.note(replacement(), replacement(), 999.0, BEGAN + timedelta(seconds=STARTS_SECONDS))
    assert moves.count() == 0, "it changed, and still does not start"
    moves.see(replacement("m"))
    moves.starting.note(replacement("m"), replacement("m", ready=True), 999.0, BEGAN)
    assert moves.count() == 0, "it waits for clusters to route traffic to it"
    moves.see(replacement("k"))
    moves.starting.note(replacement("k"), None, 999.0, BEGAN)
    assert moves.count() == 0, "it has been deleted"


def test_a_replacement_without_a_node_takes_no_slot_until_it_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    moves = Moves(monkeypatch, 32)
    moves.see(replacement(node=""))
    moves.now = PLACES_SECONDS - 1
    assert moves.count() == 1
    moves.now = PLACES_SECONDS
    assert moves.count() == 0
    moves.see(replacement(node="us"))
    assert moves.count() == 1, "it starts"


def test_a_replacement_in_a_silent_target_releases_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    moves = Moves(monkeypatch, 1)
    assert moves.begin("a", SERVES)
    moves.now = 1.0
    assert not moves.begin("b", SERVES)
    moves.silent.add("us")
    assert moves.begin("b", SERVES, node="eu")
    moves.silent.clear()
    moves.now = 2.0
    assert moves.count() == 2
    assert not moves.begin("c", SERVES)


def test_the_replacement_of_a_lost_pod_releases_its_slot_when_it_has_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rate of a mass failover must not depend on the time that pods take to get ready."""
    moves = Moves(monkeypatch, 1)
    moves.see(replacement("a", node="", cause="Lost"))
    assert not moves.begin("b", LOST)
    moves.see(replacement("a", cause="Lost"))
    assert moves.count() == 0
    assert moves.begin("b", LOST)


def test_lost_pods_come_first_then_those_of_the_highest_priority_class(monkeypatch: pytest.MonkeyPatch) -> None:
    moves = Moves(monkeypatch, 2)
    for uid in "ab":
        moves.see(replacement(uid))
    assert not moves.begin("c", (False, 5))
    assert not moves.begin("c", (True, 9))
    moves.see(replacement("a", ready=True))
    assert not moves.begin("c", (True, 7))
    assert not moves.begin("c", (False, 99))
    assert moves.limits.may_begin((True, 9), of("web"))
    assert not moves.begin("c", (True, 7)), "more of the higher class may ask"
    moves.now = 3 * AGAIN_SECONDS
    assert moves.limits.may_begin((True, 7), of("web")), "none of it has asked any more"
    moves.limits.begin("c", (True, 7))
    moves.now = 6 * AGAIN_SECONDS
    assert moves.limits.may_begin((False, 0), of("web"))
    moves.limits.begin("d", (False, 0))
    assert not moves.limits.may_begin((False, 0), of("web")), "the rate"
    assert moves.limits.may_begin((True, 0), of("web")), "which does not hold lost pods"


def test_a_rank_without_room_leaves_an_eighth_of_the_slots_to_lower_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    moves = Moves(monkeypatch, 16, rate=10.0)
    begun = [moves.begin(f"lost-{number}", LOST, node="") for number in range(17)]
    assert begun == [True] * 16 + [False]
    moves.now = PLACES_SECONDS - 1
    assert not moves.begin("more", LOST), "they may still find a node"
    assert not moves.begin("serves", SERVES)
    moves.now = PLACES_SECONDS
    lost = [moves.begin(f"more-{number}", LOST) for number in range(16)]
    assert lost == [True] * 14 + [False] * 2
    serves = [moves.begin(f"serves-{number}", SERVES) for number in range(3)]
    assert serves == [True] * 2 + [False]
    assert moves.count() == 16


def test_ranks_below_one_without_room_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    moves = Moves(monkeypatch, 16, rate=10.0)
    assert moves.begin("lost", LOST, node="")
    assert moves.begin("high", (False, 9), node="")
    moves.now = PLACES_SECONDS
    for number in range(16):
        moves.see(replacement(f"full-{number}"))
    assert not any(moves.begin("more", rank) for rank in (LOST, (False, 9), SERVES))
    for number in range(16):
        moves.see(replacement(f"full-{number}", ready=True))
    assert not moves.begin("more", (False, 9)), "it has begun one already"
    assert moves.begin("low", SERVES)


def test_a_single_slot_goes_to_a_rank_without_room_and_to_lower_ones_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    moves = Moves(monkeypatch, 1, rate=10.0)
    begun = []
    for second in range(60):
        moves.now = float(second)
        begun += ["lost"] * moves.begin(f"lost-{second}", LOST, node="")
        if moves.begin(f"serves-{second}", SERVES):
            begun.append("serves")
            moves.see(replacement(f"serves-{second}", ready=True))
    assert begun[:5] == ["lost", "serves", "lost", "serves", "lost"]


def test_asking_whether_a_move_may_begin_takes_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    moves = Moves(monkeypatch, 2)
    moves.see(replacement())
    assert all(moves.limits.may_begin(SERVES, of("web")) for _ in range(3))
    moves.limits.begin("old", SERVES)
    assert not moves.limits.may_begin(SERVES, of("web"))


def test_a_free_slot_is_for_the_first_owner_of_the_highest_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever asks first: capacity for all of them may not exist."""
    moves = Moves(monkeypatch, 2)
    for uid in "ab":
        assert moves.begin(uid, LOST, owner="full")
    assert moves.limits.first_refused() is None
    for owner in ("c", "b", "d"):
        assert not moves.begin(f"of-{owner}", LOST, owner=owner)
    assert not moves.begin("of-a", (True, -1), owner="a")
    assert moves.limits.first_refused() == of("b")
    assert moves.starting.note(replacement("a"), replacement("a", ready=True), moves.now, BEGAN), "it is ready"
    assert not moves.begin("of-c", LOST, owner="c")
    assert not moves.begin("of-d", LOST, owner="d")
    assert moves.begin("of-b", LOST, owner="b")
    assert moves.limits.first_refused() == of("c")
    assert moves.starting.note(replacement("b"), None, moves.now, BEGAN), "it was deleted"
    assert not moves.begin("of-d", LOST, owner="d")
    moves.now = 3 * AGAIN_SECONDS
    assert moves.begin("of-d", LOST, owner="d"), "the owner before it has not asked again"


async def test_replacements_that_many_owners_create_at_the_same_time_stay_within_the_limit() -> None:
    deps: Any = SimpleNamespace(proxies=SimpleNamespace(informer=SimpleNamespace(store=None)), recorder=None)
    rest: Any = None
    actions = Actions(deps, rest, rest, rest, rest, Limits(2, 10.0, Starting(lambda node: True)))
    answered, created = asyncio.Event(), list[str]()

    async def create(key: OwnerKey, owner: Any, read: Any, action: Create) -> None:
        created.append(action.old.uid)
        await answered.wait()

    actions._write = create  # type: ignore[assignment]
    lost = [Create(Pod(name, name, cause="Lost", answers=False), f"new-{name}") for name in "abcd"]
    owners = [asyncio.create_task(actions.carry_out(of(each.old.uid), rest, rest, [each])) for each in lost]
    await asyncio.sleep(0.01)
    assert created == ["a", "b"], "no answer has told of a replacement yet"
    answered.set()
    assert await asyncio.gather(*owners) == [None, None, AGAIN_SECONDS, AGAIN_SECONDS]
    assert await actions.carry_out(of("c"), rest, rest, lost[2:3]) is None
