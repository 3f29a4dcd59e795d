"""Unconnected target: the state of a target without a connection from this process, read from its conditions."""

from dataclasses import dataclass, replace

from agent.api import names
from agent.api.conditions import find_condition
from agent.base.clock import parse
from agent.clusters.target import Record, State
from agent.kube.store import Key, Object


@dataclass(frozen=True)
class UnconnectedTarget:
    """Conditions of a Target, in the agent's own types."""

    key: Key
    ready: bool
    record: Record
    slow: bool
    known: bool
    """Whether the Target has a condition Ready."""
    agent: None = None
    """None, since the condition Ready already includes the agent's state."""

    @property
    def namespace(self) -> str:
        """The only namespace that it serves, empty for all."""
        return self.key[0]

    @property
    def title(self) -> str:
        """Name for users."""
        return self.key[1]

    @property
    def node_name(self) -> str:
        """Name of the target's virtual node."""
        return names.virtual_node(*self.key)


def unconnected_target(obj: Object) -> UnconnectedTarget:
    """Return the state that the conditions of a Target or ClusterTarget report."""
    target = obj.decode()
    conditions = (target.get("status") or {}).get("conditions")
    ready = find_condition(conditions, "Ready") or {}
    message = ready.get("message") or "no agent of this cluster has said anything about this Target"
    is_ready = ready.get("status") == "True"
    since = parse(ready.get("lastTransitionTime") or target["metadata"]["creationTimestamp"])
    slow = (find_condition(conditions, "Responsive") or {}).get("status") == "False"
    record = Record(State.READY if is_ready else State.UNREACHABLE, message, since)
    return UnconnectedTarget(obj.key, is_ready, record, slow, known=bool(ready))


def not_ready(target: UnconnectedTarget) -> UnconnectedTarget:
    """Return the target as not ready: this process has no connection to it, whatever its conditions report."""
    if target.known and not target.ready:
        return target
    return replace(target, ready=False, record=replace(target.record, message="not connected yet"))
