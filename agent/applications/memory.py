"""Cache of an application between reconciles, so that unchanged inputs are not analysed again."""

from collections.abc import Collection
from dataclasses import dataclass, field

from agent.applications.plan import Calls
from agent.kube.store import Key
from agent.model.p2code.check import Draft
from agent.model.p2code.detect import Services
from agent.model.p2code.search import Searched


@dataclass
class Memory:
    """Cached results for one application, by UID."""

    psm: Key | None = None
    of: object = None
    """Generation and distribution of the draft."""
    draft: Draft | None = None
    namespaces: Collection[str] = ()
    """Namespaces of its manifests."""
    live: Services | None = None
    """Services in these namespaces when the calls were computed; None if not computed yet."""
    searched: Searched | None = None
    """Hosts that the manifests give to workloads; they do not depend on Services."""
    calls: Calls = field(default_factory=Calls)
    """Services that the workload of each bundle calls."""
    called: Collection[Key] = ()
    """Keys of the Services in `calls`."""
    applied: object = None
    """Objects, kept ManifestWorks and service account of the last apply without refusals; None before one."""
    since: float = 0.0
    """Event-loop time of that apply, in seconds."""
    until: float = 0.0
    """Event-loop time of the next apply if nothing changes, in seconds."""
    touches: int = 0
    """Number of changes to applied objects that other writers may have made."""
