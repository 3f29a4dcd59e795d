"""Small model of the source's agent: the controller's work around the decisions of mode `reserve`."""

from typing import Any

from agent.api import names
from agent.model.podstate import CandidateStatus, observe
from agent.scheduler.groups import decide as groups
from agent.scheduler.groups.members import Group, Member
from agent.scheduler.groups.order import GroupMemory, Timeouts
from agent.scheduler.reserve import decide as reserve
from agent.scheduler.reserve import steps
from agent.scheduler.reserve.view import PERMITTED, Permit, ReservePod
from agent.scheduler.reserve.view import Timeouts as ReserveTimeouts
from tests.scheduler.reserve.world_model import Operation, Pod, Raw, Request, Then, World, ignore


class Agent:
    """Agent that acts on cached API objects through requests; class attributes are rules that a mutant may break."""

    decide = staticmethod(reserve.decide)
    decide_group = staticmethod(groups.decide)
    reads_before_unclaiming = True
    guards_claims = True
    guards_uids = True
    sweeps = True
    most = 0
    limits = Timeouts(timeout=10.0, hopeless=3.0, first_pause=1.0, longest_pause=4.0)

    def __init__(self, world: World, source: int, *, late: bool = False, clock: float = 0.0) -> None:
        self.world = world
        self.clock = clock
        """Offset of the agent's clock from the world's clock. No other agent can read it."""
        self.source = source
        self.late = late
        """Whether earlier agents may have requests in flight."""
        self.pods: dict[str, Pod] = {}
        self.stores: dict[str, dict[str, Raw]] = {node: {} for node in world.targets}
        self.ready: dict[str, bool] = dict.fromkeys(world.targets, False)
        self.seen: dict[tuple[str, str], CandidateStatus] = {}
        self.memories: dict[str, GroupMemory] = {}
        self.busy: dict[str, list[Request]] = {}

    @property
    def now(self) -> float:
        return self.world.now + self.clock

    # Watching

    def sync(self) -> None:
        self.sync_pods()
        for node in self.stores:
            self.sync_target(node)

    def sync_pods(self) -> None:
        self.pods = dict(self.world.sources[self.source])

    def sync_target(self, node_name: str) -> None:
        """Update the cache from the watch, or notice that the link is cut."""
        self.ready[node_name] = (self.source, node_name) not in self.world.links
        if self.ready[node_name]:
            self.stores[node_name] = dict(self.world.targets[node_name].chaperons)
            self._sweep(node_name)

    def _sweep(self, node_name: str) -> None:
        """Delete chaperons without a pod, as the feedback controller does. It has just read the pods."""
        uids = {pod.uid for pod in self.world.sources[self.source].values()}
        for raw in self.stores[node_name].values():
            if raw["source"] == self.source and raw["pod"] not in uids and "deletionTimestamp" not in raw["metadata"]:
                self.world.delete(node_name, raw, None)

    def _sweep_bound(self, pod: Pod) -> None:
        """Delete a bound pod's candidates in other targets, as the feedback controller does."""
        for candidate in self.candidates(pod):
            if self.sweeps and candidate.node_name != pod.node_name and candidate.live:
                self._delete(pod, candidate.node_name, self._raw(candidate.node_name, candidate.uid), None, False)

    # Deciding

    def candidates(self, pod: Pod) -> tuple[CandidateStatus, ...]:
        found = []
        for node, store in self.stores.items():
            raw = next((r for r in store.values() if r["source"] == self.source and r["pod"] == pod.uid), None)
            key = (pod.uid, node)
            if raw is None:
                self.seen.pop(key, None)
                continue
            candidate = observe(raw, node, ready=self.ready[node], now=self.now, before=self.seen.get(key))
            self.seen[key] = candidate
            found.append(candidate)
        return tuple(found)

    def view(self, pod: Pod, permit: Permit = PERMITTED) -> ReservePod:
        places = [node for node in pod.order if self.ready[node] and node not in self.world.cordoned]
        return ReservePod(
            claim=pod.claim,
            claim_uid=pod.claim_uid,
            claim_known=True,
            claim_ready=bool(pod.claim) and self.ready[pod.claim],
            claim_held=True,
            claim_state="no answer",
            candidates=self.candidates(pod),
            order=tuple(sorted(places, key=lambda node: node in pod.attempts)),
            permit=permit,
            most=0 if pod.group else self.most,
            timeouts=ReserveTimeouts(patience=2.0, dwell=5.0, take_up=6.0),
        )

    def permit(self, pod: Pod) -> Permit:
        if not pod.group:
            return PERMITTED
        present = {each.group for each in self.pods.values() if each.group}
        rivals = [groups.contender(self._group(name)) for name in present - {pod.group}]
        group = self._group(pod.group)
        decision = self.decide_group(group, rivals, self.now, self.limits)
        self.memories[pod.group] = decision.memory
        return decision.permits[pod.uid]

    def _group(self, name: str) -> Group:
        members = tuple(
            Member(
                name=pod.name,
                uid=pod.uid,
                created=pod.created,
                size=str(pod.size),
                policy=pod.policy,
                view=None if pod.node_name else self.view(pod),
                node_name=pod.node_name,
            )
            for pod in self.pods.values()
            if pod.group == name
        )
        memory = self.memories.setdefault(name, GroupMemory(queued=self.now))
        return Group(("default", name), members, memory)

    def reconcile(self, name: str) -> None:
        pod = self.pods.get(name)
        if pod is None or self.busy.get(pod.uid):
            return
        if pod.node_name:
            self._sweep_bound(pod)
            return
        view = self.view(pod, self.permit(pod))
        for step in self.decide(view, self.now):
            self._take(pod, view, step)

    # Writing

    def send(self, pod: Pod, node: str, operation: Operation, then: Then = ignore, allows: str = "") -> None:
        request = Request(self, pod, node, operation, then, allows)
        self.busy.setdefault(pod.uid, []).append(request)
        self.world.requests.append(request)

    def answered(self, request: Request, answer: Any, *, failed: bool) -> None:
        waiting = self.busy.get(request.pod.uid, [])
        if request not in waiting:
            return
        waiting.remove(request)
        if not failed and self in self.world.agents:
            request.then(answer)

    def give_up_waiting(self, request: Request) -> None:
        """Time out the request, which may still arrive."""
        self.answered(request, None, failed=True)

    def _absorb_pod(self, answer: Pod | None) -> None:
        if answer is not None and answer.name in self.pods and self.pods[answer.name].version < answer.version:
            self.pods[answer.name] = answer

    def _take(self, pod: Pod, view: ReservePod, step: steps.Step) -> None:
        world, source = self.world, self.source
        match step:
            case steps.Create(node):
                self.send(pod, node, lambda: world.create(source, pod, node))
            case steps.Claim(node, uid):
                change = {"claim": node, "claim_uid": uid}
                write = lambda: world.patch(source, pod, self.guards_claims, **change)  # noqa: E731
                self.send(pod, "", write, self._absorb_pod)
            case steps.Allow(node, uid, version):
                self._allow(pod, node, uid, version)
            case steps.Delete(node, uid, version, confirm):
                self._delete(pod, node, self._raw(node, uid), version, confirm)
            case steps.NextRound(node, uid, number):
                raw = self._raw(node, uid)
                asked = {names.ANNOTATION_RESERVE_ROUND: str(number)}
                self.send(pod, node, lambda: world.annotate(node, raw, None, **asked))
            case steps.GiveUp(_, uid, version):
                attempts = pod.attempts | {pod.claim}
                remember = lambda: world.patch(source, pod, False, attempts=attempts)  # noqa: E731
                self.send(pod, "", remember, self._absorb_pod)
                self._delete(pod, pod.claim, self._raw(pod.claim, uid), version, False)
            case steps.Unclaim():
                self._unclaim(pod)
            case steps.Bind():
                self.send(pod, "", lambda: world.bind(source, pod, pod.claim), self._absorb_pod)
            case steps.Wait():
                pass

    def _raw(self, node: str, uid: str) -> Raw:
        return next(raw for raw in self.stores[node].values() if raw["metadata"]["uid"] == uid)

    def _allow(self, pod: Pod, node: str, uid: str, version: str) -> None:
        world, raw = self.world, self._raw(node, uid)
        leave = {names.ANNOTATION_IS_ALLOWED: "true"}

        def write() -> Raw | None:
            live = world.targets[node].chaperons.get(raw["metadata"]["name"])
            if not self.guards_uids and live is not None:
                return world.annotate(node, live, None, **leave)
            return world.annotate(node, raw, version, **leave)

        self.send(pod, node, write, allows=uid)

    def _delete(self, pod: Pod, node: str, raw: Raw, version: str | None, confirm: bool) -> None:
        world = self.world

        def confirmed(live: Pod | None) -> None:
            if live is not None and (live.uid, live.claim, live.claim_uid) == (pod.uid, pod.claim, pod.claim_uid):
                self.send(pod, node, lambda: world.delete(node, raw, version))

        if confirm:
            self.send(pod, "", lambda: world.sources[self.source].get(pod.name), confirmed)
        else:
            self.send(pod, node, lambda: world.delete(node, raw, version))

    def _unclaim(self, pod: Pod) -> None:
        world = self.world
        nothing = {"claim": "", "claim_uid": ""}

        def read(live: dict[str, Raw]) -> None:
            self.stores[pod.claim] = dict(live)
            if not any(raw["metadata"]["uid"] == pod.claim_uid for raw in live.values()):
                self.send(pod, "", lambda: world.patch(self.source, pod, True, **nothing), self._absorb_pod)

        if self.reads_before_unclaiming:
            self.send(pod, pod.claim, lambda: dict(world.targets[pod.claim].chaperons), read)
        else:
            self.send(pod, "", lambda: world.patch(self.source, pod, True, **nothing), self._absorb_pod)
