"""Rights of Open Cluster Management's registration, and objects that a hub needs before clusters can ask to join.

Names and rules are exactly Open Cluster Management's. A bootstrap token of one name gets no further rights: a policy
limits it to this name (`hubpolicies`).
"""

from typing import Any

from agent.api import hubpolicies
from agent.api.accounts import grants
from agent.api.kinds import (
    CERTIFICATE_REQUESTS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIGMAPS,
    EVENTS,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    NAMESPACES,
    NEW_EVENTS,
    POLICIES,
    POLICY_BINDINGS,
    REGISTERED_CLUSTERS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    SIGNERS,
    Kind,
)
from agent.api.names.hub import (
    BOOTSTRAP_ACCOUNT,
    BOOTSTRAP_GROUP,
    BOOTSTRAP_NAMESPACE,
    BOOTSTRAP_ROLE,
    CLIENT_SIGNER,
    REGISTRATION_ROLE,
    WORK_ROLE,
)
from agent.api.roles import Grant, rules

Raw = dict[str, Any]

HUB = "registration of clusters with this one as their hub"
CLUSTER_INFO, PUBLIC = "cluster-info", "kube-public"
_MEMBER, _WAITING = "member", "no member yet"
_KINDS = (
    *(NAMESPACES, SERVICE_ACCOUNTS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS),
    *(POLICIES, POLICY_BINDINGS),
)

AGENT_GRANTS: tuple[Grant, ...] = (
    *grants(MANAGED_CLUSTERS, "get update", HUB),
    *grants(MANAGED_CLUSTERS, "update", HUB, sub="status"),
    *grants(REGISTERED_CLUSTERS, "update", HUB, sub="accept"),
    *grants(REGISTERED_CLUSTERS, "renew", HUB, sub="clientcertificates"),
    *grants(CERTIFICATE_REQUESTS, "get", HUB),
    *grants(SIGNERS, "approve", HUB, names=(CLIENT_SIGNER,)),
    *grants(CLUSTER_ROLES, "list watch create patch delete", HUB),
    *grants(CLUSTER_ROLES, "bind", HUB, names=(REGISTRATION_ROLE, WORK_ROLE)),
    *grants(CLUSTER_ROLE_BINDINGS, "list watch create patch delete", HUB),
    *grants(ROLE_BINDINGS, "create patch delete", HUB),
    *grants(LEASES, "create", HUB),
    *(each for kind in (MANAGED_CLUSTER_ADDONS, MANIFEST_WORKS) for each in grants(kind, "list patch delete", HUB)),
    *grants(MANAGED_CLUSTER_ADDONS, "patch", HUB, sub="status"),
)
"""Grants of the agent in addition to those for its certificates and for Placements.

With them it holds all rights in the ClusterRole of a member, as RBAC requires of the author of a role.
"""


def member_rules(cluster: str, *, accepted: bool) -> list[Raw]:
    """Return the rules of a member's own ClusterRole; those of a denied one only let it find that out."""
    if not accepted:
        return rules(grants(MANAGED_CLUSTERS, "get list watch", _MEMBER, names=(cluster,)))
    return rules(
        (
            *grants(CERTIFICATE_REQUESTS, "create get list watch", _MEMBER),
            *grants(REGISTERED_CLUSTERS, "renew", _MEMBER, sub="clientcertificates"),
            *grants(MANAGED_CLUSTERS, "get list update watch", _MEMBER, names=(cluster,)),
            *grants(MANAGED_CLUSTERS, "patch update", _MEMBER, names=(cluster,), sub="status"),
        )
    )


def hub_objects(agent: str) -> list[Raw]:
    """Return the objects of a hub: roles of members, bootstrap account and rights, and policies.

    :param agent: name of the agent's user
    """
    return [
        _head(NAMESPACES, BOOTSTRAP_NAMESPACE),
        _head(SERVICE_ACCOUNTS, BOOTSTRAP_ACCOUNT, BOOTSTRAP_NAMESPACE),
        *_shared_roles(),
        {**_head(CLUSTER_ROLES, BOOTSTRAP_ROLE), "rules": rules(_BOOTSTRAP)},
        _binding(f"{BOOTSTRAP_ROLE}:agent-registration", CLUSTER_ROLES, BOOTSTRAP_ROLE, _account()),
        _binding(f"{BOOTSTRAP_ROLE}:managedcluster", CLUSTER_ROLES, BOOTSTRAP_ROLE, group(BOOTSTRAP_GROUP)),
        {
            **_head(ROLES, BOOTSTRAP_ROLE, PUBLIC),
            "rules": rules(grants(CONFIGMAPS, "get", _WAITING, names=(CLUSTER_INFO,))),
        },
        _binding(BOOTSTRAP_ROLE, ROLES, BOOTSTRAP_ROLE, _account(), group(BOOTSTRAP_GROUP), namespace=PUBLIC),
        *hubpolicies.objects(agent),
    ]


def kind_of(obj: Raw) -> Kind:
    """Return the kind of one of these objects."""
    return next(kind for kind in _KINDS if kind.name == obj["kind"])


def bound(kind: Kind, role: str, subjects: list[Raw]) -> Raw:
    """Return the fields of a binding to a Role or ClusterRole."""
    return {"roleRef": {"apiGroup": kind.group, "kind": kind.name, "name": role}, "subjects": subjects}


def group(name: str) -> Raw:
    """Return a group as the subject of a binding."""
    return {"apiGroup": ROLES.group, "kind": "Group", "name": name}


def user(name: str) -> Raw:
    """Return a user as the subject of a binding."""
    return {"apiGroup": ROLES.group, "kind": "User", "name": name}


def _shared_roles() -> list[Raw]:
    """Return the ClusterRoles that every member is bound to in its namespace."""
    registration = (
        *grants(LEASES, "get list watch update", _MEMBER),
        *grants(MANAGED_CLUSTER_ADDONS, "get list watch", _MEMBER),
        *grants(MANAGED_CLUSTER_ADDONS, "patch update", _MEMBER, sub="status"),
        *grants(NEW_EVENTS, "create", _MEMBER),
    )
    work = (
        *(each for kind in (EVENTS, NEW_EVENTS) for each in grants(kind, "create patch update", _MEMBER)),
        *grants(MANIFEST_WORKS, "get list watch update patch", _MEMBER),
        *grants(MANIFEST_WORKS, "patch update", _MEMBER, sub="status"),
    )
    found = ((REGISTRATION_ROLE, registration), (WORK_ROLE, work))
    return [{**_head(CLUSTER_ROLES, name), "rules": rules(granted)} for name, granted in found]


_BOOTSTRAP: tuple[Grant, ...] = (
    # Not `list`: it would show every holder of a token all members. `clusteradm join --wait` alone asks for it.
    *grants(MANAGED_CLUSTERS, "create get", _WAITING),
    *grants(MANAGED_CLUSTER_SETS, "create", _WAITING, sub="join"),
    *grants(CERTIFICATE_REQUESTS, "create get list watch", _WAITING),
)


def _account() -> Raw:
    return {"kind": SERVICE_ACCOUNTS.name, "name": BOOTSTRAP_ACCOUNT, "namespace": BOOTSTRAP_NAMESPACE}


def _binding(name: str, role: Kind, of: str, *subjects: Raw, namespace: str = "") -> Raw:
    kind = ROLE_BINDINGS if namespace else CLUSTER_ROLE_BINDINGS
    return _head(kind, name, namespace) | bound(role, of, list(subjects))


def _head(kind: Kind, name: str, namespace: str = "") -> Raw:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}
