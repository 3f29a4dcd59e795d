"""Kinds that follow pods, and the watches for them."""

from agent.api import names
from agent.api.kinds import CONFIGMAPS, PERSISTENT_VOLUME_CLAIMS, SECRETS, SERVICE_ACCOUNTS, Kind
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.informer import Informer
from agent.kube.reading import Reduce
from agent.kube.store import metadata_only

KINDS = (CONFIGMAPS, SECRETS, SERVICE_ACCOUNTS, PERSISTENT_VOLUME_CLAIMS)
ADMIRALTYS = (CONFIGMAPS, SECRETS)
"""Kinds to which Admiralty adds finalizers."""


def originals(deps: Deps, kind: Kind) -> Informer:
    """Return the informer of all objects of a kind in this cluster: metadata only, except for claims, which are
    small."""
    return deps.local.informer(kind, reduce=_kept(kind))


def copies_in(target: Target, kind: Kind, cluster_uid: str) -> Informer:
    """Return the informer of this cluster's copies in a target."""
    return target.informer(kind, labels=names.children_of(cluster_uid), reduce=_kept(kind))


def _kept(kind: Kind) -> Reduce | None:
    return None if kind == PERSISTENT_VOLUME_CLAIMS else metadata_only
