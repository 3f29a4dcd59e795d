"""Names that are made of other names: of virtual nodes, finalizers, bindings, chaperons."""

import hashlib
import re
from collections.abc import Iterable, Sequence

from agent.api.names.prefixes import PREFIX, SHORT_PREFIX

SHORT_LIMIT = 63
LONG_LIMIT = 253
_HASH_LENGTH = 10
_CHAPERON_BASE_LIMIT = 52


def join(limit: int, parts: Sequence[str], *, constant: Iterable[int] = (), optional: Iterable[int] = ()) -> str:
    """Join parts with dashes into a name of at most `limit` characters, hashed where that would be ambiguous.

    Admiralty's name builder (wire contract, 2.2): 10 hex digits of SHA-256 are appended when two different lists of
    parts could give the same name, or when the name would be too long.
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
    """Node name of a Target, or of a ClusterTarget when the namespace is empty (section 2.3)."""
    return join(LONG_LIMIT, ("admiralty", target_namespace, target_name), constant=(0,), optional=(1,))


def finalizer(target_namespace: str, target_name: str) -> str:
    """Finalizer of a Target, or of a ClusterTarget when the namespace is empty (section 2.3)."""
    return PREFIX + join(SHORT_LIMIT, (target_namespace, target_name), optional=(0,))


def source_label(source_namespace: str, source_name: str) -> str:
    """Label value that names a Source, or a ClusterSource when the namespace is empty."""
    return join(SHORT_LIMIT, (source_namespace, source_name), optional=(0,))


def origin(target_namespace: str, target_name: str) -> str:
    """Label value that names the cluster of a Target, or of a ClusterTarget when the namespace is empty."""
    return join(SHORT_LIMIT, (target_namespace, target_name), optional=(0,))


def mirror(slice_name: str, origin: str, part: int = 0) -> str:
    """Name of the EndpointSlice that tells other clusters of one in `origin`, or of a part of it."""
    digest = hashlib.sha256(origin.encode()).hexdigest()[:_HASH_LENGTH]
    base = slice_name[: LONG_LIMIT - _HASH_LENGTH - 6].rstrip("-.")
    return f"{base}-{digest}" + (f"-{part}" if part else "")


def gateway_peer(cluster: str, source_uid: str, origin: str) -> str:
    """Name of the GatewayPeer for what a source calls `cluster`; `origin` tells it from all others of the source."""
    digest = hashlib.sha256(f"{source_uid}/{origin}".encode()).hexdigest()[:_HASH_LENGTH]
    base = re.sub("[^a-z0-9]+", "-", cluster.lower())[: SHORT_LIMIT - _HASH_LENGTH - 1].strip("-")
    return f"{base}-{digest}" if base else f"peer-{digest}"


def gateway_host(service: str, host: str, peer: str) -> str:
    """Name of the Service that stands for a host of a headless Service that a GatewayPeer tells of."""
    digest = hashlib.sha256(f"{service}/{host}/{peer}".encode()).hexdigest()[:_HASH_LENGTH]
    base = (f"{service}-{host}" if host else service)[: SHORT_LIMIT - _HASH_LENGTH - 1].rstrip("-")
    return f"{base}-{digest}"


def sign(cluster_uid: str, account_uid: str = "") -> str:
    """Annotation of the Lease of sources, by which a source gives a sign of life.

    :param account_uid: UID of the ServiceAccount that writes it, and no other may; empty for the key that any source
        may write, as releases without keys of accounts do
    """
    return f"{account_uid}." * bool(account_uid) + f"{SHORT_PREFIX}source-{cluster_uid}"


def source_binding(name: str) -> str:
    """RoleBinding of a Source, in its namespace."""
    return join(LONG_LIMIT, ("admiralty-source", name), constant=(0,))


def feature_binding(namespace: str, name: str, feature: str) -> str:
    """Binding of a Source, or of a ClusterSource when the namespace is empty, to the role of a feature.

    No name of a Source makes `source_binding` the same.
    """
    kind = "multicluster-source" if namespace else "multicluster-cluster-source"
    return join(LONG_LIMIT, (kind, name, feature), constant=(0, 2))


def source_viewer_binding(namespace: str, name: str) -> str:
    """ClusterRoleBinding that lets a Source read the ClusterSummary."""
    return join(LONG_LIMIT, ("admiralty-source", namespace, name, "cluster-summary-viewer"), constant=(0, 3))


def source_renewal(account: str) -> str:
    """Role and RoleBinding that let a source's service account renew its own token."""
    return join(LONG_LIMIT, ("admiralty-source", account, "token"), constant=(0, 2))


def cluster_source_binding(name: str) -> str:
    """ClusterRoleBinding of a ClusterSource."""
    return join(LONG_LIMIT, ("admiralty-cluster-source", name), constant=(0,))


def cluster_source_viewer_binding(name: str) -> str:
    """ClusterRoleBinding that lets a ClusterSource read the ClusterSummary."""
    return join(LONG_LIMIT, ("admiralty-cluster-source", name, "cluster-summary-viewer"), constant=(0, 2))


def chaperon(pod_name: str, pod_uid: str) -> str:
    """Name of a proxy pod's PodChaperon, the same at every attempt, so that a repeated POST makes no second one.

    Ruling 2: the name cut to 52 characters, a dash, 10 hex digits of SHA-256 of the pod's UID.
    """
    digest = hashlib.sha256(pod_uid.encode()).hexdigest()[:_HASH_LENGTH]
    # A cut may leave a dot at the end, and no part of a DNS name begins with a dash.
    return f"{pod_name[:_CHAPERON_BASE_LIMIT].rstrip('.')}-{digest}"
