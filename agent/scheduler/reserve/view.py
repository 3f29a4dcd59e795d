"""State of a proxy pod in mode `reserve`, as input of the decision. Pure."""

from dataclasses import dataclass

from agent.model.podstate import CandidateStatus


@dataclass(frozen=True)
class Permit:
    """Actions that the pod's group permits; a pod without a group may do everything."""

    reserve: bool = True
    """True if it may have candidates. If False, its candidates and its not yet allowed claim are released."""
    claim: bool = True
    allow: bool = True
    only: str = ""
    """The only virtual node it may be bound to; empty for any."""
    claim_at_once: bool = False
    """True to claim a reservation now, without waiting for a better target."""
    committed: bool = False
    """True if the group has begun: a claimed candidate is allowed even if its reservation was lost."""
    begun: bool = False
    message: str = ""
    run: str = ""
    """The group's start that its claim belongs to, if the group restarts as a whole."""


PERMITTED = Permit()


def denied(message: str) -> Permit:
    """Return a permit without candidates; `message` is the reason."""
    return Permit(reserve=False, claim=False, allow=False, message=message)


@dataclass(frozen=True)
class Timeouts:
    """Settings, in seconds."""

    patience: float = 2.0
    """Time after the first reservation during which better-ranked candidates may still be undecided."""
    dwell: float = 10.0
    """Time that an allowed candidate stays after it has turned out to be unschedulable."""
    silence: float = 30.0
    """Time that a candidate may be pending before the pod reports it."""
    take_up: float = 60.0
    """Time that an allowed candidate may have no node while its scheduler does not report it as unschedulable."""

    @property
    def neglect(self) -> str:
        """Why the pod leaves a target after `take_up`."""
        unbound = f"nobody there has bound the pod's candidate for {self.take_up:g} s since it was allowed"
        return f"{unbound}: see that the agent and the candidate scheduler run there"


@dataclass(frozen=True)
class ReservePod:
    """An unbound proxy pod, its claim and its candidates."""

    claim: str
    """Virtual node of the claim; empty if unclaimed."""
    claim_uid: str
    """UID of the claimed chaperon; empty for a claim of mode `ranked`, which means any chaperon of the pod in the
    target.
    """
    claim_known: bool
    """True if the claim's target is connected."""
    claim_ready: bool
    claim_held: bool
    """True if the pod still carries the finalizer of the claim's target."""
    claim_state: str
    """Why the target is not ready, as text."""
    candidates: tuple[CandidateStatus, ...]
    """Chaperons with this pod's UID, in all connected targets."""
    order: tuple[str, ...]
    """Virtual nodes of targets that are ready and pass the filters, best first."""
    creating: frozenset[str] = frozenset()
    """Virtual nodes whose targets are being sent a candidate."""
    refused: frozenset[str] = frozenset()
    """Virtual nodes whose targets have recently refused a candidate."""
    permit: Permit = PERMITTED
    most: int = 0
    """Maximum number of candidates that are undecided or reserved; 0: one in every target."""
    timeouts: Timeouts = Timeouts()
