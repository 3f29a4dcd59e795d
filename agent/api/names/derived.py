"""Names that are derived from other names: of virtual nodes, finalizers, bindings, chaperons."""

import hashlib
import re
from collections.abc import Iterable, Sequence

from agent.api.names.prefixes import PREFIX, SHORT_PREFIX

SHORT_LIMIT = 63
LONG_LIMIT = 253
_HASH_LENGTH = 10
_CHAPERON_BASE_LIMIT = 52


def join(limit: int, parts: Sequence[str], *, constant: Iterable[int] = (), optional: Iterable[int] = ()) -> str:
    """Join parts with dashes into a name of at most `limit` characters, hashed if the name would be ambiguous
    or too long.

    Admiralty's name builder (wire contract, 2.2): 10 hex digits of SHA-256 are appended if two different lists
    of parts could give one name, or if the name would be too long.

    :param constant: indices of parts that are always the same text
    :param optional: indices of parts that may be empty
    """
    constants = frozenset(constant)
    name = "-".join(part for part in parts if part)
    variable = [part for index, part in enumerate(parts) if index not in constants]
    ambiguous = len(variable) > 1 and any("-" in part for part in variable)
    ambiguous = ambiguous or (any(not part for part in parts) and len(tuple(optional)) > 1)
    if not ambiguous and len(name) <= limit:
        return name
    digest = hashlib.sha256("/".join(parts).encode()).hexdigest()[:_HASH_LENGTH]
    room = limit - _HASH_LENGTH - 1
    if len(name) > room:
        name = name[:room].rstrip("-")
    return f"{name}-{digest}"


def virtual_node(target_namespace: str, target_name: str) -> str:
    """Return the node name of a Target, or (empty namespace) of a ClusterTarget (section 2.3)."""
    return join(LONG_LIMIT, ("admiralty", target_namespace, target_name), constant=(0,), optional=(1,))


def finalizer(target_namespace: str, target_name: str) -> str:
    """Return the finalizer of a Target, or (empty namespace) of a ClusterTarget (section 2.3)."""
    return PREFIX + join(SHORT_LIMIT, (target_namespace, target_name), optional=(0,))


def source_label(source_namespace: str, source_name: str) -> str:
    """Return the label value that names a Source, or (empty namespace) a ClusterSource."""
    return join(SHORT_LIMIT, (source_namespace, source_name), optional=(0,))


def origin(target_namespace: str, target_name: str) -> str:
    """Return the label value that names the cluster of a Target, or (empty namespace) of a ClusterTarget."""
    return join(SHORT_LIMIT, (target_namespace, target_name), optional=(0,))


def mirror(slice_name: str, origin: str, part: int = 0) -> str:
    """Return the name of the EndpointSlice that publishes one of `origin`, or a part of it, in other clusters."""
    digest = hashlib.sha256(origin.encode()).hexdigest()[:_HASH_LENGTH]
    base = slice_name[: LONG_LIMIT - _HASH_LENGTH - 6].rstrip("-.")
    return f"{base}-{digest}" + (f"-{part}" if part else "")


def gateway_peer(cluster: str, source_uid: str, origin: str) -> str:
    """Return the name of a source's GatewayPeer for the cluster `cluster`; `origin` makes it unique within the
    source.
    """
    digest = hashlib.sha256(f"{source_uid}/{origin}".encode()).hexdigest()[:_HASH_LENGTH]
    base = re.sub("[^a-z0-9]+", "-", cluster.lower())[: SHORT_LIMIT - _HASH_LENGTH - 1].strip("-")
    return f"{base}-{digest}" if base else f"peer-{digest}"


def gateway_host(service: str, host: str, peer: str) -> str:
    """Return the name of the Service that represents a host of another cluster's headless Service."""
    digest = hashlib.sha256(f"{service}/{host}/{peer}".encode()).hexdigest()[:_HASH_LENGTH]
    base = (f"{service}-{host}" if host else service)[: SHORT_LIMIT - _HASH_LENGTH - 1].rstrip("-")
    return f"{base}-{digest}"


def sign(cluster_uid: str, account_uid: str = "") -> str:
    """Return the annotation key for a source's heartbeats on the Lease of sources.

    :param account_uid: UID of the only ServiceAccount that may write it; empty for the key that any source may
        write, which releases without keys of accounts use
    """
    return f"{account_uid}." * bool(account_uid) + f"{SHORT_PREFIX}source-{cluster_uid}"


def source_binding(name: str) -> str:
    """Return the name of the RoleBinding of a Source, in its namespace."""
    return join(LONG_LIMIT, ("admiralty-source", name), constant=(0,))


def feature_binding(namespace: str, name: str, feature: str) -> str:
    """Return the name of the binding of a Source, or (empty namespace) of a ClusterSource, to the role of a feature.

    It never equals a `source_binding`.
    """
    kind = "multicluster-source" if namespace else "multicluster-cluster-source"
    return join(LONG_LIMIT, (kind, name, feature), constant=(0, 2))


def source_viewer_binding(namespace: str, name: str) -> str:
    """Return the name of the ClusterRoleBinding that lets a Source read the ClusterSummary."""
    return join(LONG_LIMIT, ("admiralty-source", namespace, name, "cluster-summary-viewer"), constant=(0, 3))


def source_renewal(account: str) -> str:
    """Return the name of the Role and RoleBinding that let a source's service account renew its own token."""
    return join(LONG_LIMIT, ("admiralty-source", account, "token"), constant=(0, 2))


def cluster_source_binding(name: str) -> str:
    """Return the name of the ClusterRoleBinding of a ClusterSource."""
    return join(LONG_LIMIT, ("admiralty-cluster-source", name), constant=(0,))


def cluster_source_viewer_binding(name: str) -> str:
    """Return the name of the ClusterRoleBinding that lets a ClusterSource read the ClusterSummary."""
    return join(LONG_LIMIT, ("admiralty-cluster-source", name, "cluster-summary-viewer"), constant=(0, 2))


def chaperon(pod_name: str, pod_uid: str) -> str:
    """Return the name of a proxy pod's PodChaperon. It is constant, so that a repeated POST creates no second one.

    Ruling 2: the name cut to 52 characters, a dash, 10 hex digits of SHA-256 of the pod's UID.
    """
    digest = hashlib.sha256(pod_uid.encode()).hexdigest()[:_HASH_LENGTH]
    # The cut may end with a dot, and no part of a DNS name may begin with a dash.
    return f"{pod_name[:_CHAPERON_BASE_LIMIT].rstrip('.')}-{digest}"
