"""Small model of sources and targets, to test the decisions of mode `reserve` under all faults between them.

API servers are dicts of immutable objects with versions and UIDs. An agent acts on cached copies from its last
`sync`. Its requests may arrive late, never, twice or after its end, and their answers may be lost.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from agent.api import names

if TYPE_CHECKING:
    from tests.scheduler.reserve.agent_model import Agent

HOLD = 10.0
Raw = dict[str, Any]
Operation = Callable[[], Any]
Then = Callable[[Any], None]


def ignore(answer: Any) -> None:
    """Ignore an answer that matters only once the watch delivers the change."""


def _ended(annotations: dict[str, str]) -> int:
    return int(annotations.get(names.ANNOTATION_RESERVE_ENDED, "-1"))


@dataclass(frozen=True)
class Pod:
    """A proxy pod."""

    name: str
    uid: str
    version: int
    created: str
    order: tuple[str, ...]
    claim: str = ""
    claim_uid: str = ""
    attempts: frozenset[str] = frozenset()
    node_name: str = ""
    group: str = ""
    size: int = 1
    policy: str = "any"


@dataclass
class Target:
    """Target with its API server, its scheduler with the extender, and its agent."""

    node_name: str
    slots: int
    chaperons: dict[str, Raw] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)
    holds: dict[str, float] = field(default_factory=dict)
    waits: set[str] = field(default_factory=set)
    """UIDs of the candidates without a fitting node."""
    foreign: int = 0

    @property
    def free(self) -> int:
        return self.slots - self.foreign - len(self.bound) - len(self.holds)


@dataclass(eq=False)
class Request:
    """Request of an agent, with the callback for its answer."""

    agent: "Agent"
    pod: Pod
    node_name: str
    """Target's virtual node; empty for the source's own API server."""
    operation: Operation
    then: Then
    allows: str = ""
    """UID of the chaperon that the request allows."""


class World:
    """All sources, targets, agents and requests in flight."""

    def __init__(self, slots: dict[str, int], sources: int = 1) -> None:
        self.now = 100.0
        self.numbers = itertools.count(1)
        self.targets = {node: Target(node, count) for node, count in slots.items()}
        self.sources: list[dict[str, Pod]] = [{} for _ in range(sources)]
        self.links: set[tuple[int, str]] = set()
        """Cut links, as source and virtual node."""
        self.cordoned: set[str] = set()
        self.requests: list[Request] = []
        self.agents: list[Agent] = []
        self.legacy: set[str] = set()
        """UIDs of pods whose candidates another agent has allowed without a claim."""
        self.claims: dict[str, str] = {}
        """UID of the pod, by the UID of each chaperon that a claim has named."""
        self.faults: list[str] = []

    # The source's API server

    def pod(self, source: int, name: str, **changes: Any) -> Pod:
        uid = f"u{next(self.numbers)}"
        pod = Pod(f"{name}", uid, next(self.numbers), f"{next(self.numbers):06}", **changes)
        self.sources[source][name] = pod
        return pod

    def patch(self, source: int, seen: Pod, guarded: bool, **changes: Any) -> Pod | None:
        """Patch the pod. Return None on a conflict."""
        pod = self.sources[source].get(seen.name)
        if pod is None or pod.uid != seen.uid or (guarded and pod.version != seen.version):
            return None
        self.sources[source][pod.name] = after = replace(pod, version=next(self.numbers), **changes)
        if after.claim_uid:
            self.claims[after.claim_uid] = after.uid
        return after

    def bind(self, source: int, seen: Pod, node_name: str) -> Pod | None:
        pod = self.sources[source].get(seen.name)
        if pod is None or pod.uid != seen.uid or pod.node_name:
            return None
        if not any(
            raw["pod"] == pod.uid and raw["metadata"]["uid"] in self.targets[node_name].bound
            for raw in self.targets[node_name].chaperons.values()
        ):
            self.faults.append(f"{pod.name} bound to {node_name}, where its delegate has no node")
        return self.patch(source, seen, guarded=False, node_name=node_name)

    # A target's API server

    def create(self, source: int, pod: Pod, node_name: str, allowed: bool = False) -> Raw:
        target = self.targets[node_name]
        name = f"{source}-{pod.name}-{pod.uid}"
        if name not in target.chaperons:
            annotations = {names.ANNOTATION_IS_ALLOWED: "true"} if allowed else {}
            metadata = {"name": name, "uid": f"c{next(self.numbers)}", "annotations": annotations}
            self._put(target, {"metadata": metadata, "status": {}, "pod": pod.uid, "source": source})
        return target.chaperons[name]

    def _put(self, target: Target, raw: Raw) -> Raw:
        metadata = raw["metadata"] | {"resourceVersion": str(next(self.numbers))}
        target.chaperons[metadata["name"]] = after = raw | {"metadata": metadata}
        return after

    def annotate(self, node_name: str, raw: Raw, version: str | None, **changes: str | None) -> Raw | None:
        target = self.targets[node_name]
        live = target.chaperons.get(raw["metadata"]["name"])
        if live is None or live["metadata"]["uid"] != raw["metadata"]["uid"]:
            return None
        if version is not None and live["metadata"]["resourceVersion"] != version:
            return None
        annotations = {k: v for k, v in (live["metadata"]["annotations"] | changes).items() if v is not None}
        if annotations == live["metadata"]["annotations"]:
            return live
        return self._put(target, live | {"metadata": live["metadata"] | {"annotations": annotations}})

    def delete(self, node_name: str, raw: Raw, version: str | None) -> None:
        target = self.targets[node_name]
        live = target.chaperons.get(raw["metadata"]["name"])
        if live is None or live["metadata"]["uid"] != raw["metadata"]["uid"]:
            return
        if version is not None and live["metadata"]["resourceVersion"] != version:
            return
        pod = self.sources[raw["source"]].get(raw["metadata"]["name"].split("-")[1])
        told = any(c.get("status") == "True" for c in live["status"].get("conditions") or ())
        if pod is not None and pod.claim_uid == live["metadata"]["uid"] and told and pod.uid not in self.legacy:
            self.faults.append(f"the running delegate of {pod.name} is deleted")
        if "deletionTimestamp" not in live["metadata"]:
            self._put(target, live | {"metadata": live["metadata"] | {"deletionTimestamp": "now"}})

    # Local events in a target

    def finish(self, node_name: str, name: str) -> None:
        """Let the delegate of a deleted chaperon end, which removes both."""
        target = self.targets[node_name]
        uid = target.chaperons.pop(name)["metadata"]["uid"]
        for known in (target.bound, target.waits):
            known.discard(uid)
        target.holds.pop(uid, None)

    def schedule(self, node_name: str, name: str) -> None:
        """Let the scheduler and the extender process one candidate."""
        target = self.targets[node_name]
        raw = target.chaperons[name]
        uid, annotations = raw["metadata"]["uid"], raw["metadata"]["annotations"]
        allowed = names.ANNOTATION_IS_ALLOWED in annotations
        number = int(annotations.get(names.ANNOTATION_RESERVE_ROUND, "0"))
        if uid in target.bound:
            return
        if uid in target.holds:
            self._held(target, raw, allowed, number)
        elif not allowed and ("deletionTimestamp" in raw["metadata"] or _ended(annotations) >= number):
            return
        elif target.free <= 0:
            target.waits.add(uid)
            if not allowed:
                self.annotate(node_name, raw, None, **{names.ANNOTATION_IS_RESERVED: None})
        elif allowed:
            target.bound.add(uid)
        else:
            target.holds[uid] = self.now
            self.annotate(node_name, raw, None, **{names.ANNOTATION_IS_RESERVED: "true"})

    def restart_scheduler(self, node_name: str) -> None:
        """Restart the scheduler. Holds are lost; the annotations of chaperons stay."""
        self.targets[node_name].holds.clear()

    def _held(self, target: Target, raw: Raw, allowed: bool, number: int) -> None:
        uid = raw["metadata"]["uid"]
        if allowed:
            del target.holds[uid]
            target.bound.add(uid)
        elif self.now - target.holds[uid] >= HOLD:
            del target.holds[uid]
            ended = {names.ANNOTATION_IS_RESERVED: None, names.ANNOTATION_RESERVE_ENDED: str(number)}
            self.annotate(target.node_name, raw, None, **ended)

    def tell(self, node_name: str, name: str) -> None:
        """Let the target's agent copy the delegate's state to the chaperon."""
        target = self.targets[node_name]
        raw = target.chaperons[name]
        uid = raw["metadata"]["uid"]
        condition = {"type": "PodScheduled", "status": "True"}
        if uid not in target.bound:
            condition |= {"status": "False", "reason": "Unschedulable", "message": "full"}
        status = {"conditions": [condition]} if uid in target.bound | target.waits else {}
        if status != raw["status"]:
            self._put(target, raw | {"status": status})

    # The network

    def deliver(self, index: int, *, answered: bool = True, again: bool = False) -> None:
        """Deliver a request. With `again`, a duplicate stays in flight."""
        request = self.requests[index] if again else self.requests.pop(index)
        if (request.agent.source, request.node_name) in self.links:
            if not again:
                request.agent.answered(request, None, failed=True)
            return
        if request.allows:
            self._check_group(request)
        answer = request.operation()
        if not again:
            request.agent.answered(request, answer, failed=not answered)

    def _check_group(self, request: Request) -> None:
        """Check that the first member of a group is allowed only after all members are claimed (one agent only)."""
        pod, source = request.pod, request.agent.source
        if not pod.group or [a for a in self.agents if a.source == source] != [request.agent] or request.agent.late:
            return
        allowed = [
            raw["pod"]
            for target in self.targets.values()
            for raw in target.chaperons.values()
            if raw["source"] == source and names.ANNOTATION_IS_ALLOWED in raw["metadata"]["annotations"]
        ]
        mates = [each for each in self.sources[source].values() if each.group == pod.group]
        if any(each.uid in allowed for each in mates) or pod.uid not in {each.uid for each in mates}:
            return
        ever = sum(bool(each.claim_uid) for each in mates)
        if ever < min(pod.size, len(mates)):
            self.faults.append(f"{pod.name} of group {pod.group} is allowed with {ever} of {pod.size} claims")

    # Invariants

    def check(self) -> None:
        assert not self.faults, self.faults
        for source, pods in enumerate(self.sources):
            for pod in pods.values():
                if pod.uid in self.legacy:
                    continue
                running = [node for node, raw in self.of(source, pod) if self.runs(node, raw)]
                assert len(running) <= 1, f"{pod.name} runs on {running}"
                for node, raw in self.of(source, pod):
                    if names.ANNOTATION_IS_ALLOWED in raw["metadata"]["annotations"]:
                        uid = raw["metadata"]["uid"]
                        assert (pod.claim, pod.claim_uid) == (node, uid), f"{pod.name} allowed on {node} without claim"

    def runs(self, node_name: str, raw: Raw) -> bool:
        return raw["metadata"]["uid"] in self.targets[node_name].bound

    def of(self, source: int, pod: Pod) -> Iterator[tuple[str, Raw]]:
        """Return the chaperons of a pod."""
        for node, target in self.targets.items():
            for raw in target.chaperons.values():
                if raw["source"] == source and raw["pod"] == pod.uid:
                    yield node, raw

    # A world without faults

    def tick(self, seconds: float = 0.5, only: "Agent | None" = None) -> None:
        """Let each possible event happen once, in order, and advance the time. If `only` is given, no other
        agent acts."""
        for agent in [only] if only else list(self.agents):
            agent.sync()
            for name in list(agent.pods):
                agent.reconcile(name)
        self.deliver_all(only)
        for node in self.targets:
            self.go_on(node, finish=True)
        self.now += seconds
        self.check()

    def deliver_all(self, only: "Agent | None" = None) -> None:
        """Deliver all requests, or one agent's, and the requests that their answers cause."""
        for _ in range(3):
            for request in list(self.requests):
                if only in (None, request.agent):
                    self.deliver(self.requests.index(request))

    def go_on(self, node_name: str, *, finish: bool) -> None:
        """Let each possible event in a target happen."""
        for name, raw in list(self.targets[node_name].chaperons.items()):
            self.schedule(node_name, name)
            self.tell(node_name, name)
            if finish and "deletionTimestamp" in raw["metadata"]:
                self.finish(node_name, name)

    def heal(self) -> None:
        """End all faults, and keep one agent per source."""
        self.links.clear()
        self.cordoned.clear()
        newest = {agent.source: agent for agent in self.agents}
        self.agents = list(newest.values())
