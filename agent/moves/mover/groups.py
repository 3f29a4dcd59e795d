"""Groups of pods that move together: gathers the members and the free capacity that `together` needs."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from agent.api import names
from agent.base.clock import parse
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.errors import UNDECODABLE
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model.errors import InvalidPod
from agent.model.manifest import source_pod
from agent.model.moveterms import move_of
from agent.model.podstate import claimed_node
from agent.model.quantity import InvalidQuantity
from agent.model.requests import host_ports, requests
from agent.moves.mover.capacity import Packing, room_for_all
from agent.moves.mover.causes import Causes, Levels
from agent.moves.mover.facts import Facts, facts_of, is_replacement
from agent.moves.mover.view import Cause, Together
from agent.moves.mover.whole_groups import Member, together
from agent.ranking.node_fit import NodeFit
from agent.ranking.snapshot import PodTemplate, TargetInfo
from agent.ranking.summary_shapes import told_shapes

NOT_ENABLED = Together("Held", "its namespace is not enabled any more, so that its group would not start again")
_GROUP = "mover group"
_ONE_CLUSTER = "one-cluster"
UNCOUNTED_SECONDS = 10.0
"""Seconds for which the free capacity that a target publishes may not yet include a new pod: it does within seconds."""


def group_of(pod: Object) -> str:
    """Return the name of a pod's group in its namespace; empty if it has none."""
    return pod.hot_annotations.group or pod.hot_annotations.group_short


def bound_claim(pod: Object, facts: Facts, claim: Callable[[Key], Object | None]) -> str:
    """Return the name of a pod's claim whose volume is in the pod's target; empty if it has none.

    :param claim: returns a volume claim, None if it does not exist
    """
    found = ((name, claim((pod.namespace, name))) for name in facts.claims)
    said = (name for name, obj in found if obj is not None and obj.annotations.get(names.ANNOTATION_VOLUME_IN))
    return next(said, "")


def member(pod: Object, facts: Facts, said: Iterable[Mapping[str, str]], *, cause: Cause, **more: Any) -> Member:
    """Build the view of a pod of a group.

    :param said: annotations of the pod, of its owners and of its namespace, in this order
    """
    of = {key: names.annotation(facts.annotations, key) or "" for key in _OF_GROUP}
    return Member(
        name=pod.name,
        kind=pod.controller.kind if pod.controller is not None else "",
        node=pod.node_name,
        cause=cause,
        deleting=pod.deleting,
        phase=pod.phase,
        move=move_of(said),
        size=of[names.POD_GROUP_SIZE],
        policy=of[names.POD_GROUP_POLICY],
        on_failure=of[names.POD_GROUP_ON_FAILURE],
        **more,
    )


class Arrivals:
    """Pods that are new in targets. Moments are seconds of the monotonic clock."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[float, str, Key]] = {}
        """By UID, the oldest first."""

    def note(self, old: Object | None, new: Object | None, moment: float) -> None:
        """Record a proxy pod that has just been claimed for a target or bound to its virtual node."""
        while self._found and moment - next(iter(self._found.values()))[0] >= UNCOUNTED_SECONDS:
            del self._found[next(iter(self._found))]
        if new is None:
            if old is not None:
                self._found.pop(old.uid, None)
        elif (place := _place(new)) and (old is None or _place(old) != place):
            self._found.pop(new.uid, None)
            self._found[new.uid] = (moment, new.node_name or claimed_node(new), new.key)

    def at(self, node: str, moment: float) -> list[Key]:
        """Return the keys of pods that are new in the target of a virtual node."""
        return [
            key for since, where, key in self._found.values() if where == node and moment - since < UNCOUNTED_SECONDS
        ]


def _place(pod: Object) -> str:
    """Return the virtual node of a pod, marked as bound or only claimed; empty if it has none."""
    return f"at {pod.node_name}" if pod.node_name else f"to {claim}" if (claim := claimed_node(pod)) else ""


class Told(NamedTuple):
    """Free capacity that a target publishes, with the objects that it was decoded from."""

    node: Object
    summary: Object | None
    packing: Packing


class Groups:
    """Index of proxy pods by group, and the free capacity of targets."""

    def __init__(self, deps: Deps, causes: Causes, nodes: Informer, claims: Informer) -> None:
        self._deps = deps
        self._causes = causes
        self._proxies = deps.proxies.informer.store
        self._proxies.index(_GROUP, lambda pod: (f"{pod.namespace}/{group}",) if (group := group_of(pod)) else ())
        self._nodes = nodes.store
        self._claims = claims.store
        self._arrivals = Arrivals()
        self._told: dict[str, Told] = {}
        """Published capacity by virtual node; decoded once per revision of the node and the summary."""
        self.held = deps.held_requests
        deps.proxies.informer.subscribe(self._noted)

    def _noted(self, old: Object | None, new: Object | None) -> None:
        is_old_news = old is None and new is not None and self._age(new) >= UNCOUNTED_SECONDS
        if not is_old_news:
            self._arrivals.note(old, new, time.monotonic())

    def _age(self, pod: Object) -> float:
        """Return the seconds since the creation of a pod. They matter for pods of the first list only."""
        created = parse(pod.head.metadata.creation_timestamp or "")
        return (self._deps.clock.now() - created).total_seconds()

    def members(self, namespace: str, group: str) -> list[Object]:
        """Return the pods of a group without replacements."""
        return [pod for pod in self._proxies.by_index(_GROUP, f"{namespace}/{group}") if not is_replacement(pod)]

    def together(self, namespace: str, group: str) -> Together:
        """Decide about a group with misplaced pods."""
        if not self._deps.namespaces.is_enabled(namespace):
            return NOT_ENABLED
        targets = [target for target in self._deps.targets.serving(namespace) if target.ready]
        pods = self.members(namespace, group)
        members = [self._member(pod, targets) for pod in pods]

        def room() -> str:
            packings = self.packings(targets)
            one = any(member.lives and member.policy == _ONE_CLUSTER for member in members)
            asking = [replace(member, wanted=wanted_by(pod)) for pod, member in zip(pods, members, strict=True)]
            return room_for_all(asking, packings, one=one)

        return together(group, members, room)

    def _member(self, pod: Object, targets: Sequence[Target]) -> Member:
        facts = facts_of(pod)
        owners = self._deps.owners.of(pod).owners if self._deps.owners is not None else ()
        above = (*(owner.annotations for owner in owners), self._deps.namespaces.annotations(pod.namespace))
        said = (facts.annotations, *above)
        choice = self._deps.choices.of(pod)
        home = self._causes.home(pod.node_name)
        found, _ = self._causes.of(pod, Levels(choice, lambda: said))
        # A group is not evicted because its pods prefer another target.
        cause: Cause = found if found != "FailBack" else ""
        return member(
            pod,
            facts,
            said,
            cause=cause,
            answers=home.answers or not pod.node_name,
            certified=self._causes.is_dead(pod.node_name),
            fence=self._deps.fence_left(pod) if not home.answers else None,
            claim=bound_claim(pod, facts, self._claims.get),
            targets=tuple(
                target.node_name
                for target in targets
                if not (cause and target.node_name == pod.node_name) and self._causes.admits(pod, target, choice)
            ),
        )

    def packings(self, targets: Iterable[Target]) -> list[Packing]:
        """Return the free capacity of targets that have virtual nodes."""
        return [packing for target in targets if (packing := self._packing(target)) is not None]

    def _packing(self, target: Target) -> Packing | None:
        """Return a target's published free capacity minus new pods that it may not include yet.

        None if the target has no virtual node.
        """
        name = target.node_name
        node = self._nodes.get(("", name))
        if node is None:
            self._told.pop(name, None)
            return None
        told = self._told.get(name)
        if told is None or told.node is not node or told.summary is not target.summary:
            told = self._told[name] = Told(node, target.summary, Packing(node.decode(), _nodes_of(target)))
        packing = told.packing.copy(self.held.limits(name), self.held.of(name))
        for wanted in self._uncounted(target.node_name):
            packing.take(wanted)
        return packing

    def _uncounted(self, node: str) -> list[PodTemplate]:
        pods = (self._proxies.get(key) for key in self._arrivals.at(node, time.monotonic()))
        return [wanted for pod in pods if pod is not None and (wanted := wanted_by(pod)) is not None]


_CONSTRAINTS = ("nodeSelector", "affinity", "tolerations")
_OF_GROUP = (names.POD_GROUP_SIZE, names.POD_GROUP_POLICY, names.POD_GROUP_ON_FAILURE)


def _nodes_of(target: Target) -> NodeFit | None:
    """Return the free capacity of a target's nodes; None if the target does not publish it."""
    summary = target.summary
    shapes = told_shapes(summary.annotations, summary.labels) if summary is not None else ()
    if not shapes:
        return None
    return NodeFit(
        TargetInfo(
            title=target.title,
            node_name=target.node_name,
            namespace=target.namespace,
            ready=True,
            state="",
            labels={},
            taints=(),
            unschedulable=False,
            allocatable={},
            shapes=shapes,
        )
    )


def wanted_by(pod: Object) -> PodTemplate | None:
    """Return the requests and constraints of a pod for the virtual node and the target's nodes.

    None if they cannot be decoded.
    """
    raw: dict[str, Any] = pod.decode()
    spec = raw["spec"]
    try:
        source = source_pod(raw)
        # With this annotation the pod's constraints apply to virtual nodes only.
        over = names.annotation(source["metadata"].get("annotations"), names.USE_CONSTRAINTS) is not None
        proxy = {key: spec[key] for key in _CONSTRAINTS if spec.get(key)}
        return PodTemplate(pod.namespace, proxy, {} if over else source["spec"], requests(spec), ports=host_ports(spec))
    except (InvalidPod, InvalidQuantity, *UNDECODABLE):
        return None
