"""What follows, and the watches for it."""

from agent.api import names
from agent.api.kinds import CONFIGMAPS, PERSISTENT_VOLUME_CLAIMS, SECRETS, SERVICE_ACCOUNTS, Kind
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.informer import Informer
from agent.kube.reading import Reduce
from agent.kube.store import metadata_only

KINDS = (CONFIGMAPS, SECRETS, SERVICE_ACCOUNTS, PERSISTENT_VOLUME_CLAIMS)
ADMIRALTYS = (CONFIGMAPS, SECRETS)
"""Those that Admiralty puts finalizers on."""


def originals(deps: Deps, kind: Kind) -> Informer:
    """All objects of a kind in this cluster; of claims, which are small, more than their metadata."""
    return deps.local.informer(kind, reduce=_kept(kind))


def copies_in(target: Target, kind: Kind, cluster_uid: str) -> Informer:
    """Our copies in a target."""
    return target.informer(kind, labels=names.children_of(cluster_uid), reduce=_kept(kind))


def _kept(kind: Kind) -> Reduce | None:
    return None if kind == PERSISTENT_VOLUME_CLAIMS else metadata_only
