"""Mode `ranked`: replicas that all assume leadership and have stale caches never send a pod to two targets.
They never remove it from a target where it has a node.

A model of the code around the decisions of `RankedScheduling`. A replica writes its claim and the chaperon that
follows in one step.
"""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agent.ranking.rank import Ranking
from agent.scheduler.failed_targets import FailedTarget
from agent.scheduler.ranked.decide import Claim, GiveUp, RankedPod, decide
from tests.examples import examples
from tests.ranking.pods_and_targets import target_info

PLACES = [target_info("eu"), target_info("us")]
NODES = [each.node_name for each in PLACES]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
Refusing = Literal["surely", "perhaps", "in words only"]
"""Refusal of a chaperon: the target surely has none, may have one, or has one despite its answer."""
UNSCHEDULABLE = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


@dataclass(frozen=True)
class Pod:
    version: int = 0
    claim: str = ""
    renewed: int = 0
    attempts: frozenset[str] = frozenset()


@dataclass
class World:
    pod: Pod = Pod()
    chaperons: dict[str, bool] = field(default_factory=dict)
    """Whether the target has refused the chaperon, by virtual node."""
    full: set[str] = field(default_factory=set)
    refusing: dict[str, Refusing] = field(default_factory=dict)
    """Targets that refuse chaperons."""
    given_up: set[str] = field(default_factory=set)
    """Targets that were asked to delete the delegate unless it has a node."""
    placed: set[str] = field(default_factory=set)
    """Targets whose scheduler has assigned a node."""

    def delete(self, node: str) -> None:
        """Delete the delegate and its chaperon."""
        self.given_up.discard(node)
        self.chaperons.pop(node, None)

    def patch(self, version: int | None, **changes: object) -> Pod | None:
        """Patch the pod, guarded by a resource version unless it is None. None means a conflict."""
        if version not in (None, self.pod.version):
            return None
        self.pod = replace(self.pod, version=self.pod.version + 1, **changes)  # type: ignore[arg-type]
        return self.pod


class Replica:
    renews = True
    """Rule that the mutant breaks."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.pod = world.pod
        self.chaperons = dict(world.chaperons)
        self.silent: set[str] = set()
        """Targets that do not answer this replica."""
        self.ready = set(NODES)
        """Targets that the replica considers ready."""
        self.unsent: tuple[str, int] | None = None

    def watch(self) -> None:
        self.pod = self.world.pod
        self.ready = set(NODES) - self.silent
        known = {node: refused for node, refused in self.world.chaperons.items() if node in self.ready}
        self.chaperons = {node: refused for node, refused in self.chaperons.items() if node in self.silent} | known

    def step(self) -> None:
        pod = self.pod
        order = [each for each in PLACES if each.node_name in self.ready - self.world.full]
        order.sort(key=lambda each: each.node_name in pod.attempts)
        refused = self.chaperons.get(pod.claim)
        view = RankedPod(
            claim=pod.claim,
            claim_known=True,
            claim_ready=pod.claim in self.ready,
            claim_held=True,
            claim_unsent=bool(pod.claim) and self.unsent == (pod.claim, pod.renewed),
            claim_state="no answer",
            chaperon=None if refused is None else {"metadata": {}, "status": UNSCHEDULABLE if refused else {}},
            failed={node: FailedTarget("full", refused=node in self.world.refusing) for node in pod.attempts},
            ranking=Ranking(tuple(order), sum(each.node_name not in pod.attempts for each in order), ()),
            now=NOW,
            dwell=timedelta(seconds=1),
        )
        match decide(view):
            case Claim(node):
                self._claim(node, unsent=view.claim_unsent)
            case GiveUp() if pod.claim not in self.silent:
                self.pod = self.world.patch(None, attempts=self.world.pod.attempts | {pod.claim}) or self.pod
                self.give_up(pod.claim)

    def give_up(self, node: str) -> None:
        if node in self.world.chaperons:
            self.world.given_up.add(node)

    def _claim(self, node: str, *, unsent: bool) -> None:
        pod = self.pod
        if (
            pod.claim not in ("", node)
            and not unsent
            and (pod.claim in self.silent or pod.claim in self.world.chaperons)
        ):
            return
        if pod.claim == node and not self.renews:
            claimed: Pod | None = pod
        else:
            claimed = self.world.patch(pod.version, claim=node, renewed=pod.renewed + 1 if pod.claim == node else 0)
        if claimed is None:
            return
        self.pod = claimed
        anew = unsent or pod.claim != node
        if node in self.silent:
            self.unsent = (node, claimed.renewed) if anew else None
            return
        refusing = self.world.refusing.get(node) if node not in self.world.chaperons else None
        if refusing is not None:
            self.unsent = (node, claimed.renewed) if anew and self.believes(refusing) else None
            if refusing == "in words only":
                self.world.chaperons[node] = False
            self.pod = self.world.patch(None, attempts=self.world.pod.attempts | {node}) or self.pod
            return
        self.unsent = None
        self.world.chaperons.setdefault(node, False)

    def believes(self, refusing: Refusing) -> bool:
        """Return whether the replica takes an answer as proof that no chaperon exists."""
        return refusing == "surely"


class Machine(RuleBasedStateMachine):
    replica = Replica

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.replicas = [self.replica(self.world), self.replica(self.world)]

    @rule(number=st.integers(0, 1))
    def watch(self, number: int) -> None:
        self.replicas[number].watch()

    @rule(number=st.integers(0, 1), node=st.sampled_from(NODES))
    def cut_or_mend(self, number: int, node: str) -> None:
        self.replicas[number].silent ^= {node}

    @rule(node=st.sampled_from(NODES))
    def fill_or_empty(self, node: str) -> None:
        self.world.full ^= {node}

    @rule(node=st.sampled_from(NODES))
    def refuse(self, node: str) -> None:
        if node in self.world.chaperons:
            self.world.chaperons[node] = True

    @rule(node=st.sampled_from(NODES))
    def place(self, node: str) -> None:
        if node in self.world.chaperons:
            self.world.placed.add(node)

    @rule(node=st.sampled_from(NODES))
    def answer(self, node: str) -> None:
        if node in self.world.placed:
            self.world.given_up.discard(node)
        elif node in self.world.given_up:
            self.world.delete(node)

    @rule(node=st.sampled_from(NODES), how=st.sampled_from([None, "surely", "perhaps", "in words only"]))
    def take_no_chaperons(self, node: str, how: Refusing | None) -> None:
        if how is None:
            self.world.refusing.pop(node, None)
        else:
            self.world.refusing[node] = how

    @rule(number=st.integers(0, 1))
    def step(self, number: int) -> None:
        self.replicas[number].step()

    @invariant()
    def is_in_one_target_at_most(self) -> None:
        assert len(self.world.chaperons) <= 1, self.world.chaperons

    @invariant()
    def stays_where_it_has_a_node(self) -> None:
        assert self.world.placed <= self.world.chaperons.keys()


TestRanked = Machine.TestCase
TestRanked.settings = settings(max_examples=examples(300), stateful_step_count=40, deadline=None)


class Careless(Replica):
    renews = False


class Credulous(Replica):
    def believes(self, refusing: Refusing) -> bool:
        return True


class Hasty(Replica):
    def give_up(self, node: str) -> None:
        self.world.delete(node)


@pytest.mark.parametrize(("kind", "safe"), [(Replica, True), (Hasty, False)], ids=["as it is", "deleting it itself"])
def test_a_delegate_that_has_just_got_a_node_is_not_taken_away(kind: type[Replica], safe: bool) -> None:
    world = World()
    replica = kind(world)
    replica.step()
    world.chaperons[NODES[0]] = True
    replica.watch()
    world.placed.add(NODES[0])
    replica.step()
    assert (NODES[0] in world.chaperons) == safe


@pytest.mark.parametrize(("kind", "safe"), [(Replica, True), (Credulous, False)], ids=["as it is", "believing all"])
def test_a_target_that_may_have_taken_the_chaperon_is_asked_before_another_gets_one(
    kind: type[Replica], safe: bool
) -> None:
    world = World(refusing={NODES[0]: "in words only"})
    replica = kind(world)
    replica.step()
    assert (world.pod.claim, world.chaperons) == (NODES[0], {NODES[0]: False})
    replica.step()
    assert (len(world.chaperons) == 1) == safe


@pytest.mark.parametrize(("kind", "safe"), [(Replica, True), (Careless, False)], ids=["as it is", "without renewal"])
def test_a_claim_that_the_new_leader_has_followed_up_is_not_moved_by_the_old_one(
    kind: type[Replica], safe: bool
) -> None:
    world = World()
    old = kind(world)
    old.silent = {NODES[0]}
    old.step()
    assert (world.pod.claim, world.chaperons) == (NODES[0], {})
    new = kind(world)
    new.step()
    assert world.chaperons == {NODES[0]: False}
    old.ready = {NODES[1]}
    old.step()
    assert (len(world.chaperons) == 1) == safe
