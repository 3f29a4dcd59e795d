"""Mode `reserve` under all faults between sources and targets, and proof that the tests detect broken rules."""

from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.examples import examples
from tests.scheduler.reserve.agent_model import Agent
from tests.scheduler.reserve.mutants import (
    AllowsBeforeItClaims,
    KeepsLosers,
    NeverGivesUp,
    NeverReleasesAGroup,
)
from tests.scheduler.reserve.settling import check_settled, settle
from tests.scheduler.reserve.world_model import World

NODES = ("eu", "us", "ap")
INDEX = st.integers(0, 997)
ORDERS = st.permutations(NODES).flatmap(lambda nodes: st.integers(1, 3).map(lambda count: tuple(nodes[:count])))


class Protocol(RuleBasedStateMachine):
    """State machine with all rules except the creation of pods."""

    agent: ClassVar[type[Agent]] = Agent
    sources: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__()
        self.world = World({})
        self.count = 0

    @initialize(slots=st.lists(st.integers(0, 3), min_size=3, max_size=3))
    def start(self, slots: list[int]) -> None:
        self.world = World(dict(zip(NODES, slots, strict=True)), self.sources)
        self.world.agents = [self.agent(self.world, source, clock=1000.0 * source) for source in range(self.sources)]

    def pick(self, things: Any, index: int) -> Any:
        found = list(things)
        return found[index % len(found)] if found else None

    # User actions

    @rule(index=INDEX)
    def delete_pod(self, index: int) -> None:
        pods = self.pick(self.world.sources, index)
        pod = self.pick(pods.values(), index)
        if pod is not None:
            del pods[pod.name]

    # Cluster events

    @rule(node=st.sampled_from(NODES), foreign=st.integers(0, 3))
    def others_take_room(self, node: str, foreign: int) -> None:
        self.world.targets[node].foreign = foreign

    @rule(node=st.sampled_from(NODES))
    def cordon_or_uncordon(self, node: str) -> None:
        self.world.cordoned ^= {node}

    @rule(node=st.sampled_from(NODES), source=INDEX)
    def cut_or_mend(self, node: str, source: int) -> None:
        self.world.links ^= {(source % self.sources, node)}

    @rule(node=st.sampled_from(NODES))
    def restart_scheduler(self, node: str) -> None:
        self.world.restart_scheduler(node)

    @rule(node=st.sampled_from(NODES), name=INDEX)
    def schedule(self, node: str, name: int) -> None:
        found = self.pick(self.world.targets[node].chaperons, name)
        if found is not None:
            self.world.schedule(node, found)

    @rule(node=st.sampled_from(NODES), name=INDEX)
    def tell(self, node: str, name: int) -> None:
        found = self.pick(self.world.targets[node].chaperons, name)
        if found is not None:
            self.world.tell(node, found)

    @rule(node=st.sampled_from(NODES), finish=st.booleans(), seconds=st.sampled_from([0.0, 11.0]))
    def target_goes_on(self, node: str, finish: bool, seconds: float) -> None:
        self.world.go_on(node, finish=finish)
        self.world.now += seconds
        self.world.go_on(node, finish=finish)

    @rule(node=st.sampled_from(NODES))
    def finish_deletions(self, node: str) -> None:
        for name, raw in list(self.world.targets[node].chaperons.items()):
            if "deletionTimestamp" in raw["metadata"]:
                self.world.finish(node, name)

    # Agent actions

    @rule(agent=INDEX, node=st.sampled_from(NODES))
    def watch_target(self, agent: int, node: str) -> None:
        self.pick(self.world.agents, agent).sync_target(node)

    @rule(agent=INDEX)
    def watch_pods(self, agent: int) -> None:
        self.pick(self.world.agents, agent).sync_pods()

    @rule(agent=INDEX, everything=st.booleans())
    def reconcile(self, agent: int, everything: bool) -> None:
        found = self.pick(self.world.agents, agent)
        for name in list(found.pods) if everything else list(found.pods)[agent % 3 : agent % 3 + 1]:
            found.reconcile(name)

    @rule(agent=INDEX, pods=st.booleans(), node=st.sampled_from(("", *NODES)), deliver=st.booleans())
    def act_on_what_is_known(self, agent: int, pods: bool, node: str, deliver: bool) -> None:
        found = self.pick(self.world.agents, agent)
        if pods:
            found.sync_pods()
        if node:
            found.sync_target(node)
        for name in list(found.pods):
            found.reconcile(name)
        if deliver:
            self.world.deliver_all(found)

    @rule(source=INDEX, kill=st.booleans(), clock=st.floats(-1e6, 1e6), stale=st.booleans())
    @precondition(lambda self: len(self.world.agents) < 4)
    def new_leader(self, source: int, kill: bool, clock: float, stale: bool) -> None:
        """Start a new leader; the old one has ended, or only assumes that it leads."""
        old = [agent for agent in self.world.agents if agent.source == source % self.sources]
        new = self.agent(self.world, source % self.sources, late=True, clock=clock)
        if stale:
            new.pods, new.stores = dict(old[-1].pods), {node: dict(store) for node, store in old[-1].stores.items()}
            new.ready = dict(old[-1].ready)
        if kill:
            self.world.agents.remove(old[-1])
        self.world.agents.append(new)

    # Network events

    @rule(index=INDEX, answered=st.booleans(), again=st.booleans())
    @precondition(lambda self: self.world.requests)
    def deliver(self, index: int, answered: bool, again: bool) -> None:
        self.world.deliver(index % len(self.world.requests), answered=answered, again=again)

    @rule(index=INDEX, lose=st.booleans())
    @precondition(lambda self: self.world.requests)
    def time_out(self, index: int, lose: bool) -> None:
        """Let the agent stop waiting for an answer; the request may still arrive."""
        request = self.world.requests[index % len(self.world.requests)]
        request.agent.give_up_waiting(request)
        if lose:
            self.world.requests.remove(request)

    # Time

    @rule(seconds=st.sampled_from([0.1, 1.0, 3.0, 11.0, 31.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.now += seconds

    @rule(count=st.integers(1, 4))
    def nothing_goes_wrong_for_a_while(self, count: int) -> None:
        for _ in range(count):
            self.world.tick()

    @rule(count=st.integers(1, 4), agent=INDEX)
    def only_one_agent_is_awake_for_a_while(self, count: int, agent: int) -> None:
        for _ in range(count):
            self.world.tick(only=self.pick(self.world.agents, agent))

    @invariant()
    def at_most_one_delegate_runs_and_leave_is_given_to_the_claimed_only(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        if self.world.targets:
            self.world.heal()
            settle(self.world)
            check_settled(self.world)


class Pods(Protocol):
    """Single pods, some of them already being scheduled by Admiralty."""

    @rule(source=INDEX, order=ORDERS)
    @precondition(lambda self: self.count < 12)
    def pod(self, source: int, order: tuple[str, ...]) -> None:
        self.count += 1
        self.world.pod(source % self.sources, f"p{self.count}", order=order)

    @rule(order=ORDERS, count=st.integers(1, 2))
    def pod_of_admiralty(self, order: tuple[str, ...], count: int) -> None:
        self.count += 1
        pod = self.world.pod(0, f"p{self.count}", order=order)
        self.world.legacy.add(pod.uid)
        for node in order[:count]:
            self.world.create(0, pod, node, allowed=True)


class Groups(Protocol):
    """Pods that start together or not at all."""

    @rule(source=INDEX, order=ORDERS, size=st.integers(2, 3), policy=st.sampled_from(["any", "one-cluster"]))
    @precondition(lambda self: self.count < 6)
    def group(self, source: int, order: tuple[str, ...], size: int, policy: str) -> None:
        self.count += 1
        for number in range(size):
            name = f"g{self.count}x{number}"
            self.world.pod(source % self.sources, name, order=order, group=f"g{self.count}", size=size, policy=policy)


class Both(Pods, Groups):
    """All kinds of pods, competing for capacity."""


class TwoSources(Both):
    """Two sources that do not observe each other's pods."""

    sources = 2


class OneCandidate(Agent):
    """Machine with `--reserve-candidates=1`."""

    most = 1


class Bounded(Both):
    """Machine in which pods without a group have one candidate at a time."""

    agent = OneCandidate


USUAL = settings(
    max_examples=examples(50),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("machine", [Pods, Groups, Both, TwoSources, Bounded], ids=lambda machine: machine.__name__)
def test_nothing_runs_twice_and_everything_that_can_run_runs_whatever_goes_wrong(machine: Any) -> None:
    usual = settings(USUAL, max_examples=examples(150)) if machine is Pods else USUAL
    run_state_machine_as_test(machine, settings=usual)


MUTANTS = {
    AllowsBeforeItClaims: (Pods, "without claim"),
    KeepsLosers: (Pods, "has candidates left|runs on"),
    NeverGivesUp: (Pods, "could run"),
    NeverReleasesAGroup: (TwoSources, "could run"),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.__name__ for mutant in MUTANTS])
def test_an_agent_that_breaks_a_rule_is_found_out(mutant: type[Agent]) -> None:
    machine, message = MUTANTS[mutant]
    broken = type(mutant.__name__, (machine,), {"agent": mutant})
    search = settings(USUAL, max_examples=1000, phases=[Phase.generate], database=None, derandomize=True)
    with pytest.raises(AssertionError, match=message):
        run_state_machine_as_test(broken, settings=search)
