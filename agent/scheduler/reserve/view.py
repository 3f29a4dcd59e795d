"""What a proxy pod in mode `reserve` is like when its next steps are decided. Pure."""

from dataclasses import dataclass

from agent.model.podstate import CandidateStatus


@dataclass(frozen=True)
class Permit:
    """What the pod's group lets it do; a pod without a group may do everything."""

    reserve: bool = True
    """It may have candidates. When not, those that it has are released, and its claim when it is not allowed yet."""
    claim: bool = True
    allow: bool = True
    only: str = ""
    """The one virtual node it may go to, empty for any."""
    claim_at_once: bool = False
    """Claim what is reserved now; others do not wait for a better target."""
    committed: bool = False
    """The group has begun: a claimed candidate is allowed even when its reservation is lost."""
    begun: bool = False
    message: str = ""
    run: str = ""
    """The start of its group that its claim belongs to, of a group that starts again as a whole."""


PERMITTED = Permit()


def denied(message: str) -> Permit:
    """For a pod that may not have candidates; `message` says why."""
    return Permit(reserve=False, claim=False, allow=False, message=message)


@dataclass(frozen=True)
class Timeouts:
    """Settings, in seconds."""

    patience: float = 2.0
    """How long after the first reservation candidates that rank better may still be undecided."""
    dwell: float = 10.0
    """How long an allowed candidate stays that has turned out to be unschedulable."""
    silence: float = 30.0
    """How long a candidate may be pending before the pod tells of it."""
    take_up: float = 60.0
    """How long an allowed candidate may be without a node when its scheduler does not say that none will do."""

    @property
    def neglect(self) -> str:
        """Why the pod leaves a target after that."""
        unbound = f"nobody there has bound the pod's candidate for {self.take_up:g} s since it was allowed"
        return f"{unbound}: see that the agent and the candidate scheduler run there"


@dataclass(frozen=True)
class ReservePod:
    """A proxy pod that is not bound, its claim and its candidates."""

    claim: str
    """Virtual node of the claim, empty for none."""
    claim_uid: str
    """The chaperon that the claim names; empty for a claim of mode `ranked`, which names whatever is in the target."""
    claim_known: bool
    """Whether the claim's target is connected."""
    claim_ready: bool
    claim_held: bool
    """Whether the pod still carries the finalizer of the claim's target."""
    claim_state: str
    """Why it is not ready, in words."""
    candidates: tuple[CandidateStatus, ...]
    """Of chaperons with this pod's UID, in all connected targets."""
    order: tuple[str, ...]
    """Virtual nodes of targets that are ready and pass the filters, best first."""
    creating: frozenset[str] = frozenset()
    """Virtual nodes whose target is being sent a candidate right now."""
    refused: frozenset[str] = frozenset()
    """Virtual nodes whose target has refused to take a candidate a moment ago."""
    permit: Permit = PERMITTED
    most: int = 0
    """So many candidates may be undecided, or reserved, at a time; 0: one in every target."""
    timeouts: Timeouts = Timeouts()
