"""What is remembered of an application between two looks, so that what has not changed is not found out again."""

from collections.abc import Collection
from dataclasses import dataclass, field

from agent.applications.plan import Calls
from agent.kube.store import Key
from agent.model.p2code.check import Draft
from agent.model.p2code.detect import Services
from agent.model.p2code.search import Searched


@dataclass
class Memory:
    """What was found out about one of them, for as long as it stays what it is."""

    psm: Key | None = None
    of: object = None
    """Generation and distribution that the draft is of."""
    draft: Draft | None = None
    namespaces: Collection[str] = ()
    """Those that its manifests are in."""
    live: Services | None = None
    """The Services there, over which was found out who calls whom."""
    searched: Searched | None = None
    """The hosts that workloads are given; they depend on the manifests alone."""
    calls: Calls = field(default_factory=Calls)
    """What the workload of each bundle calls."""
    called: Collection[Key] = ()
    """The Services among that."""
    applied: object = None
    """What was applied without any refusal, and the annotations that say by whom."""
    since: float = 0.0
    """When that was."""
    until: float = 0.0
    """When it is looked at again all the same."""
    touches: int = 0
    """How often somebody may have touched it."""
