"""A proxy pod with its chaperons, as `decide` sees them, and the actions that it returns. Pure."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec

from agent.api import names
from agent.model import deletion, podstate, terminating
from agent.model.delegate_annotations import USUAL, Homecoming
from agent.model.podranges import ANYWHERE, PodRanges


@dataclass(frozen=True)
class TargetChaperon:
    """A chaperon of the proxy pod's name in a target whose stores can be believed."""

    finalizer: str
    """Finalizer of the target that has the chaperon."""
    chaperon: dict[str, Any]
    ranges: PodRanges = ANYWHERE
    """Pod ranges of that target."""

    @property
    def parent_uid(self) -> str:
        """Return the UID of the proxy pod for which it was created."""
        return str(self.chaperon["metadata"]["labels"].get(names.LABEL_PARENT_UID, ""))

    @property
    def uid(self) -> str:
        """The chaperon's UID."""
        return str(self.chaperon["metadata"].get("uid", ""))

    @property
    def deleting(self) -> bool:
        """Return whether it is already being deleted."""
        return "deletionTimestamp" in self.chaperon["metadata"]

    @property
    def lost(self) -> bool:
        """Return whether the target reports its pod as missing."""
        return self._says(names.ANNOTATION_POD_MISSING_SINCE)

    @property
    def may_have_run(self) -> bool:
        """Return whether a pod that must not run twice was created and may have started, by the target's records."""
        spec = self.chaperon.get("spec") or {}
        annotations = self.chaperon["metadata"].get("annotations") or {}
        return names.ANNOTATION_POD_MADE in annotations and podstate.may_start(spec.get("schedulerName"), annotations)

    @property
    def ending(self) -> bool:
        """Return whether the target reports that a user or controller there is deleting its pod."""
        return self._says(names.ANNOTATION_POD_ENDING)

    @property
    def withdrawn(self) -> bool:
        """Return whether the chaperon already carries the mark that its delegate no longer serves."""
        return deletion.is_withdrawn(self.chaperon)

    def not_ready(self) -> "TargetChaperon":
        """Return a copy whose delegate is not ready, for a chaperon that is being deleted in the target."""
        status = terminating.not_ready(self.chaperon.get("status") or {}, self.chaperon)
        return replace(self, chaperon={**self.chaperon, "status": status})

    def _says(self, annotation: str) -> bool:
        return annotation in (self.chaperon["metadata"].get("annotations") or {})


class Ending(NamedTuple):
    """End of the delegate of a terminating proxy pod."""

    wait: float = 0.0
    """Seconds until it is to be checked again; 0 if the chaperon may be deleted."""
    grace: int | None = None
    """Grace period in seconds that the chaperon has yet to receive; None for none."""


class ProxyAndDelegates(msgspec.Struct, frozen=True):
    """A proxy pod with all that is known of its delegates."""

    proxy: dict[str, Any] | None
    """None if a synced store has no such pod."""
    delegates: tuple[TargetChaperon, ...]
    home: str
    """Finalizer of the one target that may run the delegate: by binding, else by claim; empty without one."""
    settled: frozenset[str]
    """Finalizers of ready targets: a delegate in one of them exists only if it is among `delegates`."""
    cluster_uid: str
    homecoming: Homecoming = USUAL
    last: TargetChaperon | None = None
    """Last observed state of the delegate, if it had ended and its chaperon has been deleted since."""
    doubtful: frozenset[str] = frozenset()
    """Finalizers of targets that may have another chaperon or delegate of a terminating proxy pod."""
    lost: frozenset[str] = frozenset()
    """Finalizers of targets in which nothing runs any longer, as a user has certified."""
    ending: Ending = Ending()
    """State of the delegate's end, for a terminating proxy pod."""


class DeleteChaperon(msgspec.Struct, frozen=True):
    """Delete with foreground propagation, which normally keeps the chaperon until its delegate has been deleted."""

    delegate: TargetChaperon


GONE = "its delegate is gone from the target"
ENDING = "its delegate is being deleted in the target"
MAY_HAVE_RUN = "its delegate is gone from the target, may have run there, and must not run twice"


class DeleteProxy(msgspec.Struct, frozen=True):
    """The delegate is lost: its controller makes a new pod."""

    why: str
    """GONE, which the target has to confirm, or a reason that the target itself reports."""


class EndProxy(msgspec.Struct, frozen=True):
    """Remove from the API a terminating proxy pod that waits for a kubelet it does not have."""


class PatchProxy(msgspec.Struct, frozen=True):
    """Change the proxy pod."""

    patch: dict[str, Any]
    status: bool
    """Whether to send it to the status subresource."""
    last: bool = False
    """Final status of a delegate, written before the release; a refusal by the API server does not prevent that."""


class ReleaseProxy(msgspec.Struct, frozen=True):
    """Finalizers that a terminating proxy pod keeps; the targets of the removed ones release it."""

    finalizers: list[str]
    status: dict[str, Any]
    """Status patch for a pod whose delegate's end will not be reported; {} for none."""


class Withdraw(msgspec.Struct, frozen=True):
    """Take from a delegate the label by which copies of Services select it."""

    delegate: TargetChaperon
    grace: int | None
    """Grace period in seconds to send in the same write; None for none."""


class ShortenGrace(msgspec.Struct, frozen=True):
    """Send the delegate's grace period to the target's agent, before or after its chaperon is deleted."""

    delegate: TargetChaperon
    seconds: int


Action = DeleteChaperon | DeleteProxy | EndProxy | PatchProxy | ReleaseProxy | ShortenGrace | Withdraw
