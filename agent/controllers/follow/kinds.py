"""What follows, and the watches for it."""

from agent.api import names
from agent.api.kinds import CONFIGMAPS, SECRETS, SERVICE_ACCOUNTS, Kind
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.informer import Informer
from agent.kube.store import metadata_only

KINDS = (CONFIGMAPS, SECRETS, SERVICE_ACCOUNTS)
ADMIRALTYS = (CONFIGMAPS, SECRETS)
"""Those that Admiralty puts finalizers on."""


def originals(deps: Deps, kind: Kind) -> Informer:
    """Metadata of all objects of a kind in this cluster."""
    return deps.local.informer(kind, reduce=metadata_only)


def copies_in(target: Target, kind: Kind, cluster_uid: str) -> Informer:
    """Metadata of our copies in a target."""
    return target.informer(kind, labels=f"{names.LABEL_PARENT_CLUSTER_UID}={cluster_uid}", reduce=metadata_only)
