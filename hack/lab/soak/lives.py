"""Lives of pods, from audit logs: when each was created, bound, finished and deleted. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from agent.api.names import LABEL_PARENT_UID, LEASE_CONTROLLERS, SCHEDULER_PROXY
from hack.lab.soak.audit import Answer, Line, Owner, moment

OVER = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Moment:
    """An event, and the audit line that proves it. It happened between `earliest` and `latest` (seconds since 1970)."""

    earliest: float
    latest: float
    line: str
    user: str = ""


@dataclass
class Life:
    """A pod, by UID. A moment is None if no audit line shows it."""

    cluster: str
    namespace: str
    name: str
    uid: str
    parent: str
    """UID of its proxy pod; empty if the pod is not a delegate."""
    is_proxy: bool
    owner: Owner
    app: str
    restarts: bool
    """Whether the kubelet restarts containers that exit with 0."""
    born: Moment
    placed: Moment | None = None
    ran: Moment | None = None
    finished: Moment | None = None
    phase: str = ""
    reason: str = ""
    """Reason of the final phase."""
    leaving: Moment | None = None
    """First deletion. Its `user` is empty if the line of the request is missing."""
    gone: Moment | None = None
    seen: float = 0.0
    """Last time at which the pod is known to have existed, in seconds since 1970."""

    @property
    def over(self) -> Moment | None:
        """The moment at which the pod finished or was removed, whichever came first; None if neither happened."""
        found = [each for each in (self.finished, self.gone) if each is not None]
        return min(found, key=lambda each: each.latest) if found else None

    def told(self) -> list[str]:
        """Return its audit lines in order."""
        moments = (self.born, self.placed, self.ran, self.finished, self.leaving, self.gone)
        return [each.line for each in moments if each is not None]


@dataclass(frozen=True)
class Renewal:
    """A write of an agents' lease that succeeded, or may have succeeded."""

    cluster: str
    at: float
    holder: str
    line: str


@dataclass(frozen=True)
class NodeTold:
    """The Ready condition of a node, as one request wrote it."""

    cluster: str
    name: str
    at: float
    ready: str
    line: str


@dataclass(frozen=True)
class ChaperonAsked:
    """A request that created, patched or deleted a PodChaperon."""

    cluster: str
    name: str
    at: float
    line: str
    deletes: bool = False
    parent: str = ""
    """UID of the proxy pod; empty if the response does not contain it."""


@dataclass
class History:
    """Everything that the audit logs of all clusters show."""

    lives: dict[tuple[str, str], Life] = field(default_factory=dict)
    """By cluster and UID."""
    renewals: list[Renewal] = field(default_factory=list)
    nodes: list[NodeTold] = field(default_factory=list)
    chaperons: list[ChaperonAsked] = field(default_factory=list)
    _named: dict[tuple[str, str, str], Life] = field(default_factory=dict)

    def add(self, cluster: str, lines: Iterable[Line]) -> None:
        """Add the audit log of a cluster, oldest line first."""
        for line in lines:
            match line.object_ref.resource:
                case "pods":
                    self._pod(cluster, line)
                case "podchaperons":
                    if line.done:
                        told = f"{line.told(cluster)}, {line.answered - line.received:.1f} s"
                        name, deletes = line.object_ref.name, line.verb == "delete"
                        labels = next((each.metadata.labels for each in line.answers()), None) or {}
                        parent = labels.get(LABEL_PARENT_UID, "")
                        self.chaperons.append(ChaperonAsked(cluster, name, line.answered, told, deletes, parent))
                case "leases":
                    if line.object_ref.name == LEASE_CONTROLLERS and (line.done or line.in_doubt):
                        self.renewals.append(Renewal(cluster, line.answered, line.holder(), line.told(cluster)))
                case "nodes":
                    self.nodes += _nodes(cluster, line)
                case _:
                    pass

    def proxies(self) -> dict[str, Life]:
        """Return the proxy pods by UID."""
        return {life.uid: life for life in self.lives.values() if life.is_proxy}

    def delegates(self) -> dict[str, list[Life]]:
        """Return the delegates by the UID of their proxy pod, in order of creation."""
        found: dict[str, list[Life]] = {}
        for life in sorted(self.lives.values(), key=lambda each: each.born.latest):
            if life.parent:
                found.setdefault(life.parent, []).append(life)
        return found

    def _pod(self, cluster: str, line: Line) -> None:
        what = line.object_ref
        if line.missing:
            self._not_there(cluster, line)
        if not line.done:
            return
        if what.subresource in ("binding", "eviction"):
            life = self._named.get((cluster, what.namespace, what.name))
            if life is not None and life.gone is None and what.subresource == "binding":
                life.placed = life.placed or _moment(cluster, line, life.uid)
            return
        for pod in line.answers():
            if pod.metadata.uid and pod.kind in ("", "Pod"):
                self._seen(cluster, line, pod)

    def _not_there(self, cluster: str, line: Line) -> None:
        """Record that the last known pod of this name has been deleted, although no line shows the deletion."""
        life = self._named.get((cluster, line.object_ref.namespace, line.object_ref.name))
        if life is not None and life.gone is None and life.seen < line.received:
            life.gone = Moment(life.seen, line.answered, line.told(cluster))

    def _seen(self, cluster: str, line: Line, pod: Answer) -> None:
        uid = pod.metadata.uid
        life = self.lives.get((cluster, uid))
        if life is None:
            life = self.lives[cluster, uid] = _born(cluster, line, pod)
            self._follow(life)
        now = _moment(cluster, line, uid)
        life.seen = max(life.seen, line.received)
        if pod.spec.node_name:
            life.placed = life.placed or now
        phase = pod.state.phase
        if phase == "Running":
            life.ran = life.ran or now
        if phase in OVER and life.finished is None:
            life.finished, life.phase, life.reason = now, phase, pod.state.reason
        deletes = line.verb in ("delete", "deletecollection")
        # The API server may answer a deletion after other clients have observed its effect.
        if deletes and (life.leaving is None or line.received < life.leaving.latest):
            life.leaving = now
        elif pod.metadata.deletion_timestamp and life.leaving is None:
            grace = pod.metadata.deletion_grace_period_seconds or 0
            life.leaving = _to_the_second(moment(pod.metadata.deletion_timestamp) - grace, now)
        if life.gone is None and _is_last(line, pod, deletes=deletes):
            life.gone = now

    def _follow(self, life: Life) -> None:
        """Record the pod as the current one of its name: an earlier pod of that name must have been deleted."""
        key = (life.cluster, life.namespace, life.name)
        before = self._named.get(key)
        if before is not None and before.gone is None:
            before.gone = Moment(before.seen, life.born.latest, life.born.line)
        self._named[key] = life


def _is_last(line: Line, pod: Answer, *, deletes: bool) -> bool:
    """Return whether the request removes the pod from the API server."""
    metadata = pod.metadata
    if metadata.finalizers:
        return False
    if deletes and (metadata.deletion_timestamp is None or line.at_once()):
        return True
    return metadata.deletion_timestamp is not None and metadata.deletion_grace_period_seconds == 0


def _born(cluster: str, line: Line, pod: Answer) -> Life:
    metadata = pod.metadata
    labels = metadata.labels or {}
    owners = metadata.owner_references or []
    born = _moment(cluster, line, metadata.uid)
    if line.verb != "create" and metadata.creation_timestamp:
        born = _to_the_second(moment(metadata.creation_timestamp), born)
    return Life(
        cluster=cluster,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        parent=labels.get(LABEL_PARENT_UID, ""),
        is_proxy=pod.spec.scheduler_name == SCHEDULER_PROXY,
        owner=next((each for each in owners if each.controller), Owner()),
        app=labels.get("app", ""),
        restarts=pod.spec.restart_policy == "Always",
        born=born,
    )


def _to_the_second(asked: float, seen: Moment) -> Moment:
    """Return the time of a request whose line is late or missing, from a timestamp in whole seconds, without a user."""
    return Moment(asked, min(asked + 1.0, seen.latest), seen.line)


def _moment(cluster: str, line: Line, uid: str) -> Moment:
    return Moment(line.received, line.answered, line.told(cluster, uid), line.user.username)


def _nodes(cluster: str, line: Line) -> Iterator[NodeTold]:
    if not line.done:
        return
    for node in line.answers():
        for condition in node.state.conditions or ():
            if condition.type == "Ready":
                name = node.metadata.name
                yield NodeTold(cluster, name, line.answered, condition.status, line.told(cluster))
