"""State of a target's own agent, alive and new enough or not, judged from its leader lease and its
ClusterSummary. Pure.

An API server that answers proves nothing about the agent behind it. Without an agent, chaperons get no pods.
"""

import contextlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from agent.api.names import ANNOTATION_AGENT_VERSION, LEASE_CONTROLLERS, SUMMARY_NAME
from agent.api.names.givingup import ANNOTATION_AGENT_ANSWERS
from agent.kube.errors import UNDECODABLE, Unreadable
from agent.kube.store import Object
from agent.model.source import Flaw
from agent.model.summaryflaw import summary_flaw

OLDEST = (0, 1)
"""Major and minor version of the oldest agent whose target this source can use."""

GIVE_UP = "give-up"
"""In a ClusterSummary: the agent answers `givingup.ANNOTATION_GIVE_UP` on chaperons."""

GRACE_PERIOD = "grace-period"
"""In a ClusterSummary: the agent answers `ANNOTATION_GRACE_PERIOD` on chaperons."""

_VERSION = re.compile(r"v?(\d{1,9})\.(\d{1,9})(?!\d)", re.ASCII)
_DEFAULT_DURATION = 15.0
_SHOWN = 40


class AgentState(StrEnum):
    """State of a target's agent. The values are reasons of the condition AgentReady."""

    READY = "AgentReady"
    SILENT = "AgentSilent"
    TOO_OLD = "AgentTooOld"
    INVALID_SUMMARY = "InvalidSummary"
    UNKNOWN = "Unknown"


@dataclass(frozen=True)
class AgentRecord:
    """The state of a target's agent, in words, too."""

    state: AgentState
    message: str

    @property
    def usable(self) -> bool:
        """Return whether the state of the agent permits new pods in the target."""
        return self.state in (AgentState.READY, AgentState.UNKNOWN)


OWN = AgentRecord(AgentState.READY, "this agent is the target's own")
NOT_ASKED = AgentRecord(AgentState.UNKNOWN, "the target cannot be asked")


class Lease(msgspec.Struct, frozen=True):
    """Relevant fields of a leader lease."""

    class Metadata(msgspec.Struct, frozen=True):
        """Relevant metadata of a Lease."""

        namespace: str = ""

    class Spec(msgspec.Struct, frozen=True, rename="camel"):
        """Holder, time of renewal and duration (seconds)."""

        holder_identity: str | None = None
        lease_duration_seconds: float | None = None
        renew_time: str | None = None

    metadata: Metadata = Metadata()
    spec: Spec = Spec()


_lease_decoder = msgspec.json.Decoder(Lease)


def readable_leases(items: Iterable[msgspec.Raw]) -> list[Lease]:
    """Return the readable leases of a list."""
    found = []
    for item in items:
        with contextlib.suppress(*UNDECODABLE):
            found.append(_lease_decoder.decode(item))
    return found


@dataclass
class _Seen:
    spec: Lease.Spec
    since: float
    moved: bool = False


class Pulse:
    """Follows the leases of one target's agent.

    Only changes count, measured by the local monotonic clock, since the target's clock may be wrong. A lease is expired
    if it has not changed for its duration and `margin` seconds. A lease without a holder does not change either.
    """

    def __init__(self, margin: float) -> None:
        self._margin = margin
        self._seen: dict[str, _Seen] = {}

    def read(self, leases: Iterable[Lease], now: float) -> AgentRecord | None:
        """Judge the leases that were read at this moment (seconds); return None if they prove nothing yet."""
        found = {lease.metadata.namespace: lease.spec for lease in leases}
        self._seen = {namespace: self._note(namespace, spec, now) for namespace, spec in found.items()}
        if not found:
            return AgentRecord(AgentState.UNKNOWN, f"the target has no lease {LEASE_CONTROLLERS}: its agent is another")
        verdicts = {namespace: self._alive(seen, now) for namespace, seen in self._seen.items()}
        if True in verdicts.values():
            return AgentRecord(AgentState.READY, "the target's agent is alive")
        if None in verdicts.values():
            return None
        last = max(self._seen, key=lambda namespace: self._seen[namespace].since)
        return AgentRecord(
            AgentState.SILENT,
            f"nobody renews lease {last}/{LEASE_CONTROLLERS} in the target: see that its agent runs",
        )

    def _note(self, namespace: str, spec: Lease.Spec, now: float) -> _Seen:
        seen = self._seen.get(namespace)
        if seen is None:
            return _Seen(spec, now)
        return seen if seen.spec == spec else _Seen(spec, now, moved=True)

    def _alive(self, seen: _Seen, now: float) -> bool | None:
        if now - seen.since > (seen.spec.lease_duration_seconds or _DEFAULT_DURATION) + self._margin:
            return False
        return True if seen.moved and seen.spec.holder_identity else None


def conclude(pulse: AgentRecord | None, summary: Object | None, flaw: Flaw | None = None) -> AgentRecord | None:
    """Return the state of an agent. A dead agent precedes an outdated one, which precedes an unusable summary.

    Admiralty's agents publish no version.
    """
    if pulse is not None and pulse.state is AgentState.SILENT:
        return pulse
    told = _version_of(summary) if summary is not None else ""
    version = _VERSION.match(told)
    if version is not None and (int(version[1]), int(version[2])) < OLDEST:
        needed = ".".join(map(str, OLDEST))
        return AgentRecord(
            AgentState.TOO_OLD,
            f"the target's agent is version {told[:_SHOWN]}, this source needs {needed} or later: "
            "upgrade the agent there",
        )
    return AgentRecord(AgentState.INVALID_SUMMARY, invalid(flaw)) if flaw is not None else pulse


def answers(agent: AgentRecord | None, summary: Object | None, asked: str) -> bool:
    """Return whether an agent supports this annotation of chaperons and is not known to be dead.

    It takes seconds until an agent is known to be alive.
    """
    if summary is None or (agent is not None and not agent.usable):
        return False
    return asked in summary.annotations.get(ANNOTATION_AGENT_ANSWERS, "").split(",")


def _version_of(summary: Object) -> str:
    try:
        return summary.annotations.get(ANNOTATION_AGENT_VERSION, "")
    except Unreadable:
        return ""


def is_readable(summary: Object) -> bool:
    """Return whether the annotations of a ClusterSummary can be read, whatever is wrong with other fields."""
    try:
        return summary.annotations is not None
    except Unreadable:
        return False


def flaw_of(summary: Object) -> Flaw | None:
    """Return the flaw of a ClusterSummary as read from an API server, None if it has none."""
    try:
        return summary_flaw(summary.decode())
    except (Unreadable, RecursionError) as error:
        return Flaw("metadata", f"cannot be read: {error}")


def invalid(flaw: Flaw) -> str:
    """Return the message about a target whose ClusterSummary is unusable."""
    return (
        f"ClusterSummary {SUMMARY_NAME} in the target: {flaw.field}: {flaw.reason}: "
        "correct it there, or delete it, and the agent there writes it anew"
    )
