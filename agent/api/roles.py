"""Grants of a target to its sources (wire contract, 9): one table, with a verb and its feature per entry.

If a target's administrator removes a verb, only its feature is switched off. The role that Admiralty has, too,
contains exactly Admiralty's rules; each additional feature has a role of its own.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from agent.api.kinds import (
    CHAPERONS,
    CLUSTER_SUMMARIES,
    CONFIGMAPS,
    CONNECTORS,
    ENDPOINT_SLICES,
    EVENTS,
    GATEWAY_PEERS,
    INGRESSES,
    LEASES,
    LINKERD_LINKS,
    LISTENERS,
    NETWORK_POLICIES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_METRICS,
    PODS,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICE_EXPORTS,
    SERVICE_IMPORTS,
    SERVICES,
    SITES,
    SKUPPER_LINKS,
    SKUPPER_TOKENS,
    SOURCES,
    Kind,
)
from agent.api.names import LEASE_CONTROLLERS, LEASE_SOURCES

SOURCE_ROLE = "multicluster-scheduler-source"
ADMIRALTY_SOURCE_ROLE = "admiralty-source"
"""Name of that role in Admiralty's chart, in a release with the name `admiralty`."""
SOURCE_RULES_ROLE = "multicluster-scheduler-source-rules"
"""Role that only a target's administrator binds."""
CLUSTER_SUMMARY_VIEWER_ROLE = "multicluster-scheduler-cluster-summary-viewer"


@dataclass(frozen=True, slots=True)
class Grant:
    """One verb on one resource, and the feature for which a source needs it."""

    kind: Kind
    verb: str
    feature: str
    sub: str = ""
    names: tuple[str, ...] = ()
    """Names of the objects; empty for all."""

    @property
    def resource(self) -> str:
        """Resource as in rules: `pods`, `pods/log`."""
        return f"{self.kind.plural}/{self.sub}" if self.sub else self.kind.plural


RUN = "run pods"
OWN = "owner references in clusters that protect them (OpenShift)"
FOLLOW_CONFIGMAPS = "follow config maps"
FOLLOW_SECRETS = "follow secrets"
FOLLOW_SERVICES = "follow services"
FOLLOW_INGRESSES = "follow ingresses"
FOLLOW_CLAIMS = "follow volume claims"
FOLLOW_ACCOUNTS = "follow service accounts"
FOLLOW_ROLES = "follow roles and role bindings"
FOLLOW_POLICIES = "follow network policies"
SHARE_ENDPOINTS = "endpoints of Services across clusters"
SHARE_BY_SKUPPER = "endpoints of Services across clusters, by Skupper"
SHARE_BY_LINKERD = "Linkerd's links between clusters, and their state"
SHARE_BY_GATEWAYS = "Services across clusters, by gateways"
SHARE_BY_MCS = "endpoints of Services across clusters, by the Multi-Cluster Services API"
SERVE_MCS = "imports of exported Services in all clusters"
TELL_OF_MCS = "results of exports by the Multi-Cluster Services API"
LOGS = "logs"
EXEC = "exec"
ATTACH = "attach"
PORT_FORWARD = "port-forward"
TOP = "usage of pods (kubectl top)"
DELEGATE_EVENTS = "warnings about delegates"
WARN_OF_MISSING = "warnings about objects that a target lacks"
SUMMARY = "capacity of virtual nodes"
QUOTAS = "no pods beyond a target's resource quotas"
AGENT_HEALTH = "health of the target's agent"
SIGNS = "heartbeats of the source"
FENCE = "fences, which stop pods whose source is cut off"
RENEW = "its token is renewed before it ends"


MISSED = (SERVICE_ACCOUNTS, PERSISTENT_VOLUME_CLAIMS)
"""Kinds that a pod may need in its target and that are not copied to it, or only on request."""


def _followed(kind: Kind, feature: str) -> tuple[Grant, ...]:
    return tuple(Grant(kind, verb, feature) for verb in ("get", "list", "watch", "create", "update", "delete"))


SOURCE: tuple[Grant, ...] = (
    Grant(CHAPERONS, "get", RUN),
    Grant(CHAPERONS, "list", RUN),
    Grant(CHAPERONS, "watch", RUN),
    Grant(CHAPERONS, "create", RUN),
    Grant(CHAPERONS, "update", RUN),
    Grant(CHAPERONS, "delete", RUN),
    Grant(CHAPERONS, "deletecollection", RUN),
    Grant(CHAPERONS, "patch", RUN),
    *(Grant(kind, "update", OWN, "finalizers") for kind in (CHAPERONS, SOURCES, PODS)),
    *_followed(CONFIGMAPS, FOLLOW_CONFIGMAPS),
    *_followed(SECRETS, FOLLOW_SECRETS),
    *_followed(SERVICES, FOLLOW_SERVICES),
    *_followed(INGRESSES, FOLLOW_INGRESSES),
    Grant(PODS, "list", LOGS),
    Grant(PODS, "get", LOGS, "log"),
    Grant(PODS, "create", EXEC, "exec"),
)
"""Exactly Admiralty's rules: its sources, and users who bind the role, rely on them."""

_KEEP = ("list", "create", "patch", "delete")
PODS_FEATURE = "pods"
FEATURES: dict[str, tuple[Grant, ...]] = {
    PODS_FEATURE: (
        Grant(EVENTS, "list", DELEGATE_EVENTS),
        Grant(EVENTS, "watch", DELEGATE_EVENTS),
        Grant(PODS, "get", LOGS),
        Grant(PODS, "create", ATTACH, "attach"),
        Grant(PODS, "create", PORT_FORWARD, "portforward"),
        Grant(POD_METRICS, "list", TOP),
        *(Grant(kind, verb, WARN_OF_MISSING) for kind in MISSED for verb in ("list", "watch")),
        *(Grant(RESOURCE_QUOTAS, verb, QUOTAS) for verb in ("list", "watch")),
    ),
    "services": (
        *(Grant(ENDPOINT_SLICES, verb, SHARE_ENDPOINTS) for verb in ("list", "watch", "create", "patch", "delete")),
        *(Grant(SERVICE_EXPORTS, verb, SHARE_BY_MCS) for verb in ("get", "list", "create", "delete")),
        Grant(SERVICE_IMPORTS, "get", TELL_OF_MCS),
    ),
    "volumes": tuple(
        Grant(PERSISTENT_VOLUME_CLAIMS, verb, FOLLOW_CLAIMS) for verb in ("get", "create", "patch", "delete")
    ),
    "accounts": tuple(Grant(SERVICE_ACCOUNTS, verb, FOLLOW_ACCOUNTS) for verb in ("get", "create", "update", "delete")),
    "skupper": (
        *(Grant(kind, verb, SHARE_BY_SKUPPER) for kind in (LISTENERS, CONNECTORS) for verb in _KEEP),
        *(Grant(SITES, verb, SHARE_BY_SKUPPER) for verb in ("list", "create")),
        *(Grant(SKUPPER_TOKENS, verb, SHARE_BY_SKUPPER) for verb in ("get", "list", "create", "delete")),
        Grant(SKUPPER_LINKS, "list", SHARE_BY_SKUPPER),
    ),
    "linkerd": (Grant(LINKERD_LINKS, "list", SHARE_BY_LINKERD),),
    "mcs": (
        # Listing them is part of `services`, which `mcs` needs as well.
        Grant(SERVICE_EXPORTS, "watch", SERVE_MCS),
        Grant(SERVICE_EXPORTS, "patch", SERVE_MCS, "status"),
        *(Grant(SERVICE_IMPORTS, verb, SERVE_MCS) for verb in ("list", "watch", "create", "patch", "delete")),
        Grant(SERVICE_IMPORTS, "patch", SERVE_MCS, "status"),
    ),
    "fence": tuple(Grant(LEASES, verb, FENCE) for verb in ("get", "create", "update")),
    "gateway": tuple(
        Grant(GATEWAY_PEERS, verb, SHARE_BY_GATEWAYS) for verb in ("list", "watch", "create", "patch", "delete")
    ),
}
"""Grants of sources beyond Admiralty's rules, one role for each feature."""
OPTIONAL_FEATURES = tuple(name for name in FEATURES if name != PODS_FEATURE)
"""Features that `spec.allow` of a Source may name. Every Source has `pods`, which serves running pods."""
NAMED_FEATURES = ("skupper", "linkerd", "mcs", "fence", "gateway")
"""Optional features that a Source has only if it names them."""

EVERYTHING: tuple[Grant, ...] = (*SOURCE, *itertools.chain.from_iterable(FEATURES.values()))
"""All grants that an agent may give to a Source."""


def feature_of(kind: Kind) -> str:
    """Return the optional feature of a kind, empty for none."""
    return next((name for name in OPTIONAL_FEATURES if any(grant.kind == kind for grant in FEATURES[name])), "")


def role_of(grant: Grant) -> str:
    """Return the name of the ClusterRole that contains a source's grant."""
    if grant in CLUSTER_SUMMARY_VIEWER:
        return CLUSTER_SUMMARY_VIEWER_ROLE
    return next((feature_role(SOURCE_ROLE, name) for name in FEATURES if grant in FEATURES[name]), SOURCE_ROLE)


def feature_role(source_role: str, feature: str) -> str:
    """Return the name of the ClusterRole of a feature, which exists in addition to that of all sources."""
    return f"{source_role}-{feature}"


_RULES_VERBS = ("get", "list", "watch", "create", "update", "delete")

SOURCE_RULES: tuple[Grant, ...] = (
    *(Grant(kind, verb, FOLLOW_ROLES) for kind in (ROLES, ROLE_BINDINGS) for verb in _RULES_VERBS),
    *(Grant(NETWORK_POLICIES, verb, FOLLOW_POLICIES) for verb in _RULES_VERBS),
)
"""Grants that also affect other pods of the target: Sources do not get them."""

CLUSTER_SUMMARY_VIEWER: tuple[Grant, ...] = (
    Grant(CLUSTER_SUMMARIES, "get", SUMMARY),
    Grant(CLUSTER_SUMMARIES, "list", SUMMARY),
    Grant(CLUSTER_SUMMARIES, "watch", SUMMARY),
    Grant(LEASES, "list", AGENT_HEALTH, names=(LEASE_CONTROLLERS,)),
    *(Grant(LEASES, verb, SIGNS, names=(LEASE_SOURCES,)) for verb in ("get", "patch")),
)


def token_renewal(account: str) -> Grant:
    """Return the grant by which a service account may renew its own token.

    The user who joins a source gives it, and may create such tokens anyway. No agent may give it.
    """
    return Grant(SERVICE_ACCOUNTS, "create", RENEW, "token", (account,))


def source_cluster_role() -> dict[str, Any]:
    """Return the ClusterRole to which Sources (in their namespace) and ClusterSources (everywhere) are bound."""
    return _cluster_role(SOURCE_ROLE, SOURCE)


def feature_cluster_roles() -> list[dict[str, Any]]:
    """Return the ClusterRoles of the features, to which Sources that allow them are bound, too."""
    return [_cluster_role(feature_role(SOURCE_ROLE, name), grants) for name, grants in FEATURES.items()]


def cluster_roles() -> list[dict[str, Any]]:
    """Return all ClusterRoles for sources, ordered so that no role loses verbs before another one contains them."""
    return [
        *feature_cluster_roles(),
        source_cluster_role(),
        source_rules_cluster_role(),
        cluster_summary_viewer_role(),
    ]


def source_rules_cluster_role() -> dict[str, Any]:
    """Return the ClusterRole that an administrator may bind to a source to let it copy Roles and NetworkPolicies."""
    return _cluster_role(SOURCE_RULES_ROLE, SOURCE_RULES)


def cluster_summary_viewer_role() -> dict[str, Any]:
    """Return the ClusterRole to which every source is bound cluster-wide, since the summary is cluster-scoped."""
    return _cluster_role(CLUSTER_SUMMARY_VIEWER_ROLE, CLUSTER_SUMMARY_VIEWER)


def rules(grants: Iterable[Grant]) -> list[dict[str, Any]]:
    """Return grants as rules of a role: one for each resource and set of names."""
    verbs: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for grant in grants:
        verbs.setdefault((grant.kind.group, grant.resource, grant.names), []).append(grant.verb)
    return [
        {"apiGroups": [group], "resources": [resource], "verbs": granted}
        | ({"resourceNames": list(objects)} if objects else {})
        for (group, resource, objects), granted in verbs.items()
    ]


def _cluster_role(name: str, grants: tuple[Grant, ...]) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules(grants),
    }
