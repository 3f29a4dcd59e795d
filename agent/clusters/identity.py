"""Identity of a target's cluster: the UID of its namespace kube-system, which its agent publishes in the
ClusterSummary.

A kubeconfig may be changed to another cluster, and another cluster may take over an address. An object missing
in that cluster proves nothing about the pods that were sent to the first one.
"""

import contextlib
from typing import NamedTuple

from agent.api import names
from agent.api.kinds import CLUSTER_SUMMARIES, NAMESPACES, Kind
from agent.clusters.health.record import State
from agent.kube.errors import NotFound, ServerError, StatusError, TooManyRequests, Unauthorized, Unreadable
from agent.kube.session import Session
from agent.kube.store import Object
from agent.model.summary import checked_uid, told_uid

_SYSTEM = "kube-system"


class Expected(NamedTuple):
    """UIDs of the clusters that a Target accepts; each empty if the Target does not name one."""

    recorded: str = ""
    """Cluster to which its pods were sent."""
    joined: str = ""
    """Cluster for which `flotilla join` created the Target; counts until pods are sent to it."""
    accepted: str = ""
    """Cluster that a user has accepted in place of the other one."""


ANY = Expected()


class Told(NamedTuple):
    """Identity that a cluster has reported."""

    uid: str = ""
    """Empty if the cluster publishes none and does not let the source read its namespace kube-system."""
    silent: bool = False
    """Whether the cluster has no ClusterSummary: its agent has not started yet, or was removed."""


class Identity:
    """Expected and observed cluster of a target. A cluster that reports no UID may be any."""

    def __init__(self, session: Session, seconds: float, *, certain: bool = False) -> None:
        """:param seconds: timeout of each request
        :param certain: whether the target is the local cluster, whose identity needs no check
        """
        self._session = session
        self._seconds = seconds
        self._certain = certain
        self._expected = ANY
        self._told = Told()
        self._heard: str | None = ""
        """UID that a watch reported before the first request to the cluster; None after that request."""
        self.uid = ""
        """UID of the cluster from which the target's stores were read; empty while it is not known."""
        self._doubts = 0
        self._sure_at: tuple[int, int] | None = None
        """Numbers of doubts and marks when the cluster was last confirmed as the right one."""

    def expect(self, expected: Expected) -> bool:
        """Set the accepted clusters. Return whether that changes the verdict on the cluster's last report."""
        before, self._expected = judge(self._expected, self._told), expected
        return before != judge(expected, self._told)

    @property
    def sure(self) -> bool:
        """Whether the identity was confirmed since another cluster may last have taken the target's place."""
        return self._certain or self._sure_at == self._now

    def doubt(self) -> None:
        """Record that another cluster may have taken the target's place, because a request had no answer."""
        self._doubts += 1

    def hear(self, summary: Object | None) -> bool:
        """Record a ClusterSummary from a watch. Return whether the identity has to be requested again."""
        uid = uid_of(summary)
        if self._certain or uid in ("", self._told.uid):
            return False
        if self._heard is not None:
            self._heard = uid
        else:
            self.doubt()
        return True

    async def ask(self) -> None:
        """Request the identity from the cluster. Raises KubeError if it does not answer."""
        if self._certain:
            return
        begun = self._now
        told = await self._ask()
        if told.uid or told.silent or self._told.silent:
            self._told = told
        self.uid = self.uid or told.uid
        if self._heard not in (None, "", told.uid):
            self.doubt()
        self._heard = None
        self._sure_at = begun if self.problem is None else None

    async def confirm(self) -> bool:
        """Return whether the cluster is still the one from which its stores were read. Raises KubeError."""
        await self.ask()
        return self.problem is None

    @property
    def outdated(self) -> bool:
        """Whether another cluster answers than the one from which the stores were read."""
        return bool(self._told.uid) and self._told.uid != self.uid

    @property
    def problem(self) -> tuple[State, str] | None:
        """State and message, with a remedy, if the cluster's answers must not be used; None otherwise."""
        return judge(self._expected, self._told) or (
            (State.CONNECTING, "another cluster answers than before, reading its state") if self.outdated else None
        )

    @property
    def _now(self) -> tuple[int, int]:
        return self._doubts, len(self._session.marks)

    async def _ask(self) -> Told:
        """Read the identity: from the ClusterSummary, which sources may read, else from the namespace.

        Admiralty's ClusterSummary has no UID, and few sources may read the namespace.
        """
        silent = False
        try:
            summary = await self._get(CLUSTER_SUMMARIES, names.SUMMARY_NAME)
        except NotFound:
            summary, silent = None, True
        uid = uid_of(summary)
        if not uid:
            with contextlib.suppress(NotFound):
                system = await self._get(NAMESPACES, _SYSTEM)
                uid = checked_uid(system.uid) if system is not None else ""
        return Told(uid, silent=silent and not uid)

    async def _get(self, kind: Kind, name: str) -> Object | None:
        """Return an object, None if it cannot be read. Raises NotFound, and errors that may pass."""
        path, plural = kind.path(None, name), kind.plural
        try:
            answer = await self._session.request("GET", path, resource=plural, timeout=self._seconds, at_once=True)
            return Object(kind, answer)
        except (NotFound, Unauthorized, TooManyRequests, ServerError):
            raise
        except (StatusError, Unreadable):
            return None


def judge(expected: Expected, told: Told) -> tuple[State, str] | None:
    """Return state and message if a cluster's report contradicts the expectation, None otherwise. Pure."""
    wanted = expected.recorded or expected.joined
    if told.silent and expected.recorded:
        return State.NOT_INSTALLED, (
            f"the target has no ClusterSummary, which tells whether it is cluster {wanted}, where the pods of this"
            " Target are: see that its agent runs, which writes it"
        )
    if wanted and told.uid and told.uid not in (wanted, expected.accepted):
        return State.WRONG_CLUSTER, (
            f"the kubeconfig leads to cluster {told.uid}, and this Target stands for cluster {wanted}: correct the"
            " kubeconfig; or, if that cluster is gone for good, annotate the Target"
            f" {names.SHORT_PREFIX}{names.ACCEPT_CLUSTER}={told.uid}: its pods are replaced then, and volumes begin"
            " empty"
        )
    return None


def uid_of(summary: Object | None) -> str:
    """Return the UID in a ClusterSummary; empty if it has none or cannot be read."""
    try:
        return told_uid(summary.annotations) if summary is not None else ""
    except Unreadable:
        return ""
