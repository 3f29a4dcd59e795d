"""Which cluster a target is: by the UID of its namespace kube-system, which its agent tells in the ClusterSummary.

A kubeconfig may come to lead to another cluster, and an address to another one behind it. What that one does not have
says nothing of the pods that were sent to the first.
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
    """Which cluster a Target says it stands for, by UIDs; each empty where it does not say."""

    recorded: str = ""
    """That its pods were sent to."""
    joined: str = ""
    """That `flotilla join` made it for; counts as long as no pods were sent there."""
    accepted: str = ""
    """That a person has said may take the other's place."""


ANY = Expected()


class Told(NamedTuple):
    """What a cluster says of itself."""

    uid: str = ""
    """Empty where it tells none, and lets nobody read it."""
    silent: bool = False
    """It has no ClusterSummary: its agent has not begun, or was removed."""


class Identity:
    """Which cluster a target has to be, and which it is. One that tells nothing may be any."""

    def __init__(self, session: Session, seconds: float, *, certain: bool = False) -> None:
        """:param seconds: how long each answer may take
        :param certain: it cannot be another one, and is never asked
        """
        self._session = session
        self._seconds = seconds
        self._certain = certain
        self._expected = ANY
        self._told = Told()
        self._heard: str | None = ""
        """By a watch, before the cluster itself was asked for the first time; None since then."""
        self.uid = ""
        """Of the cluster that the target's stores were read from; empty while that is not known."""
        self._doubts = 0
        self._sure_at: tuple[int, int] | None = None
        """How many doubts and marks there were when it was last found to be the right one."""

    def expect(self, expected: Expected) -> bool:
        """What it has to be from now on. Returns whether that says something else of what it told."""
        before, self._expected = judge(self._expected, self._told), expected
        return before != judge(expected, self._told)

    @property
    def sure(self) -> bool:
        """Whether it was asked since another one may have taken its place."""
        return self._certain or self._sure_at == self._now

    def doubt(self) -> None:
        """Another one may take its place: it gave no answer."""
        self._doubts += 1

    def hear(self, summary: Object | None) -> bool:
        """Take note of a ClusterSummary that a watch has shown. Returns whether the cluster has to be asked again."""
        uid = uid_of(summary)
        if self._certain or uid in ("", self._told.uid):
            return False
        if self._heard is not None:
            self._heard = uid
        else:
            self.doubt()
        return True

    async def ask(self) -> None:
        """Ask the cluster itself. Raises KubeError where it does not answer."""
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
        """Whether it is, at this moment, the cluster that its stores were read from. Raises KubeError."""
        await self.ask()
        return self.problem is None

    @property
    def outdated(self) -> bool:
        """Whether another cluster answers now than the one that the stores were read from."""
        return bool(self._told.uid) and self._told.uid != self.uid

    @property
    def problem(self) -> tuple[State, str] | None:
        """Why nothing may be concluded from what it tells, with a message that a user can act on."""
        return judge(self._expected, self._told) or (
            (State.CONNECTING, "another cluster answers than before, reading its state") if self.outdated else None
        )

    @property
    def _now(self) -> tuple[int, int]:
        return self._doubts, len(self._session.marks)

    async def _ask(self) -> Told:
        """Sources may read the ClusterSummary; Admiralty's has no UID, and few may read the namespace itself."""
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
        """None for what may not be, or cannot be, read. Raises NotFound, and what may pass."""
        path, plural = kind.path(None, name), kind.plural
        try:
            answer = await self._session.request("GET", path, resource=plural, timeout=self._seconds, at_once=True)
            return Object(kind, answer)
        except (NotFound, Unauthorized, TooManyRequests, ServerError):
            raise
        except (StatusError, Unreadable):
            return None


def judge(expected: Expected, told: Told) -> tuple[State, str] | None:
    """What is wrong with what a cluster tells of itself, None if nothing is. Pure."""
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
    """The UID that a ClusterSummary tells; empty where it tells none, or cannot be read."""
    try:
        return told_uid(summary.annotations) if summary is not None else ""
    except Unreadable:
        return ""
