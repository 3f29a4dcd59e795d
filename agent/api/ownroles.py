"""What our own processes may do in the cluster they run in: one table each, a verb and the feature it serves per entry.

The chart's roles are written from these tables (hack/crds), and the agents and webhooks of the sandbox have exactly
these rights, so that every test finds a verb that is missing. A feature that an installation switches off takes its
verbs with it.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from agent.api.kinds import (
    CERTIFICATE_REQUESTS,
    CHAPERONS,
    CLUSTER_CLAIMS,
    CLUSTER_PROPERTIES,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CLUSTER_SOURCES,
    CLUSTER_SUMMARIES,
    CLUSTER_TARGETS,
    CONFIGMAPS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    EVENTS,
    INGRESSES,
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NETWORK_POLICIES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_METRICS,
    PODS,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICE_EXPORTS,
    SERVICES,
    SIGNERS,
    SOURCES,
    SUBJECT_ACCESS_REVIEWS,
    TARGETS,
    TOKEN_REVIEWS,
    VALIDATING_WEBHOOKS,
    Kind,
)
from agent.api.names import (
    CLIENT_CA_CONFIGMAP,
    CLIENT_CA_NAMESPACE,
    KUBELET_SIGNER,
    LEASE_CANDIDATES,
    LEASE_CONTROLLERS,
    NODE_LEASE_NAMESPACE,
    SUMMARY_NAME,
)
from agent.api.roles import CLUSTER_SUMMARY_VIEWER_ROLE, FEATURES, SOURCE_ROLE, Grant, feature_role, rules

FEATURE_ROLES = tuple(feature_role(SOURCE_ROLE, name) for name in FEATURES)

CONFIGURATION = "multicluster-scheduler"
"""Name of both webhook configurations."""
WEBHOOK_SECRET = "multicluster-scheduler-webhook-cert"

HOME = "home"
"""Scope: the namespace that the process runs in."""

LEADER = "one leader among replicas"
SCHEDULE = "proxy pods go to targets"
STATUS = "what happens to delegates comes home"
ELECT = "namespaces that elect by default"
TARGET = "targets, their conditions and credentials"
VIRTUAL_NODES = "virtual nodes"
NODE_LEASES = "virtual nodes stay alive"
DELEGATES = "delegates of other clusters"
TELL = "events"
SUMMARY = "what other clusters are told of this one"
PROPERTIES = "properties of this cluster"
SOURCE = "rights of other clusters"
SOURCES_READ = "Sources: rights of other clusters, and what their pods may contain"
SELF_TARGETS = "this cluster as a target of its own"
ACCOUNTS_READ = "service accounts of Sources, and those that follow pods"
BINDINGS_READ = "bindings of Sources, and those that follow pods"
SOURCE_API = "pods elsewhere talk to this cluster's API"
FOLLOW_RULES = "roles and network policies follow pods"
FOLLOW = "config maps and secrets follow pods"
FOLLOW_CLAIMS = "volume claims follow pods"
SHARE = "services and ingresses across clusters"
SHARE_BY_MCS = "services across clusters by the Multi-Cluster Services API"
KUBELET = "logs, exec and the like on virtual nodes"
KUBELET_APPROVAL = "the certificate for that needs nobody's approval"

CERTIFICATE = "its own CA and certificate"
SERVE = "the certificate it serves"
CALLED = "whether the API server calls it"
TRUST = "the API server trusts it"
REGISTER = "it registers itself"
WARN = "known targets"
SECRETS_OF_TARGETS = "warnings about the Secrets of targets"

KEEP = "existing sources keep their rights"
HOLD = "candidates keep their nodes until their source decides"
ONE_SCHEDULER = "one candidate scheduler works among replicas"

COUNT = "refuse while pods are at work"
REMOVE_PODS = "policy delete: pods go"
STOP = "agents and webhooks stop"
CLEAN = "nothing of ours is left"


@dataclass(frozen=True)
class Account:
    """All grants of one process, by where they count: `` everywhere, HOME, or the name of a namespace."""

    name: str
    grants: dict[str, tuple[Grant, ...]]


def _grants(kind: Kind, verbs: str, feature: str, *, sub: str = "", names: tuple[str, ...] = ()) -> tuple[Grant, ...]:
    return tuple(Grant(kind, verb, feature, sub, names) for verb in verbs.split())


AGENT = Account(
    "agent",
    {
        "": (
            *_grants(PODS, "get list watch patch delete", SCHEDULE),
            *_grants(PODS, "create", SCHEDULE, sub="binding"),
            *_grants(PODS, "patch", STATUS, sub="status"),
            *_grants(NAMESPACES, "get list watch patch", ELECT),
            *_grants(TARGETS, "get list watch patch", TARGET),
            *_grants(TARGETS, "patch", TARGET, sub="status"),
            *_grants(CLUSTER_TARGETS, "get list watch patch", TARGET),
            *_grants(CLUSTER_TARGETS, "patch", TARGET, sub="status"),
            *_grants(SECRETS, "get list watch patch", TARGET),
            *_grants(NODES, "get list watch create patch delete", VIRTUAL_NODES),
            *_grants(NODES, "patch", VIRTUAL_NODES, sub="status"),
            *_grants(CHAPERONS, "get list watch patch", DELEGATES),
            *_grants(CHAPERONS, "update", DELEGATES, sub="status"),
            # Where owners of objects are guarded (OpenShift): a delegate blocks the deletion of its chaperon.
            *_grants(CHAPERONS, "update", DELEGATES, sub="finalizers"),
            *_grants(PODS, "create", DELEGATES),
            *_grants(PODS, "patch", DELEGATES, sub="resize"),
            *_grants(PODS, "patch", DELEGATES, sub="ephemeralcontainers"),
            *_grants(EVENTS, "create get patch", TELL),
            *_grants(CLUSTER_SUMMARIES, "create", SUMMARY),
            *_grants(CLUSTER_SUMMARIES, "list watch patch", SUMMARY, names=(SUMMARY_NAME,)),
            *_grants(CLUSTER_PROPERTIES, "list watch", PROPERTIES),
            *_grants(CLUSTER_CLAIMS, "list watch", PROPERTIES),
            *_grants(SOURCES, "list watch", SOURCES_READ),
            *_grants(SOURCES, "get", SOURCE),
            *_grants(SOURCES, "patch", SOURCE, sub="status"),
            *_grants(CLUSTER_SOURCES, "list watch", SOURCES_READ),
            *_grants(CLUSTER_SOURCES, "get", SOURCE),
            *_grants(CLUSTER_SOURCES, "patch", SOURCE, sub="status"),
            *_grants(SERVICE_ACCOUNTS, "create", SOURCE),
            *_grants(SERVICE_ACCOUNTS, "get list watch", ACCOUNTS_READ),
            *_grants(ROLE_BINDINGS, "get list watch", BINDINGS_READ),
            *_grants(ROLE_BINDINGS, "create patch delete", SOURCE),
            *_grants(CLUSTER_ROLE_BINDINGS, "get list watch create patch delete", SOURCE),
            *_grants(CLUSTER_ROLES, "bind", SOURCE, names=(SOURCE_ROLE, *FEATURE_ROLES, CLUSTER_SUMMARY_VIEWER_ROLE)),
            *_grants(CHAPERONS, "create delete", SELF_TARGETS),
            *_grants(EVENTS, "list watch", SELF_TARGETS),
            *_grants(RESOURCE_QUOTAS, "list watch", SELF_TARGETS),
            *_grants(PODS, "get", SELF_TARGETS, sub="log"),
            *_grants(PODS, "create", SELF_TARGETS, sub="exec"),
            *_grants(PODS, "create", SELF_TARGETS, sub="attach"),
            *_grants(PODS, "create", SELF_TARGETS, sub="portforward"),
            *_grants(POD_METRICS, "list", SELF_TARGETS),
            *_grants(CERTIFICATE_REQUESTS, "create list watch", KUBELET),
            *_grants(TOKEN_REVIEWS, "create", KUBELET),
            *_grants(SUBJECT_ACCESS_REVIEWS, "create", KUBELET),
            *_grants(CERTIFICATE_REQUESTS, "update", KUBELET_APPROVAL, sub="approval"),
            *_grants(SIGNERS, "approve", KUBELET_APPROVAL, names=(KUBELET_SIGNER,)),
            *_grants(CONFIGMAPS, "get list watch patch", FOLLOW),
            *_grants(PERSISTENT_VOLUME_CLAIMS, "get list watch patch", FOLLOW_CLAIMS),
            *_grants(SERVICE_ACCOUNTS, "create", SOURCE_API, sub="token"),
            *_grants(ROLES, "get list watch", FOLLOW_RULES),
            *_grants(NETWORK_POLICIES, "get list watch", FOLLOW_RULES),
            *_grants(SERVICES, "get list watch patch", SHARE),
            *_grants(SERVICES, "patch", SHARE, sub="status"),
            *_grants(INGRESSES, "get list watch patch", SHARE),
            *_grants(ENDPOINT_SLICES, "list watch create patch delete", SHARE),
            *_grants(SERVICE_EXPORTS, "get list create delete", SHARE_BY_MCS),
        ),
        HOME: (
            *_grants(LEASES, "create", LEADER),
            *_grants(LEASES, "get update", LEADER, names=(LEASE_CONTROLLERS,)),
        ),
        NODE_LEASE_NAMESPACE: _grants(LEASES, "get create patch", NODE_LEASES),
        CLIENT_CA_NAMESPACE: _grants(CONFIGMAPS, "list watch", KUBELET, names=(CLIENT_CA_CONFIGMAP,)),
    },
)

WEBHOOK = Account(
    "webhook",
    {
        "": (
            *_grants(TARGETS, "list watch", WARN),
            *_grants(CLUSTER_TARGETS, "list watch", WARN),
            *_grants(SECRETS, "get", SECRETS_OF_TARGETS),
            *_grants(SUBJECT_ACCESS_REVIEWS, "create", SECRETS_OF_TARGETS),
            *_grants(MUTATING_WEBHOOKS, "get list watch", CALLED, names=(CONFIGURATION,)),
            *_grants(VALIDATING_WEBHOOKS, "get list watch", CALLED, names=(CONFIGURATION,)),
            *_grants(MUTATING_WEBHOOKS, "patch", TRUST, names=(CONFIGURATION,)),
            *_grants(VALIDATING_WEBHOOKS, "patch", TRUST, names=(CONFIGURATION,)),
            *_grants(MUTATING_WEBHOOKS, "create", REGISTER),
            *_grants(VALIDATING_WEBHOOKS, "create", REGISTER),
        ),
        HOME: (
            *_grants(SECRETS, "create", CERTIFICATE),
            *_grants(SECRETS, "patch", CERTIFICATE, names=(WEBHOOK_SECRET,)),
            *_grants(SECRETS, "get list watch", SERVE, names=(WEBHOOK_SECRET,)),
        ),
    },
)

UNINSTALL = Account(
    "uninstall",
    {
        "": (
            *_grants(PODS, "list", COUNT),
            *_grants(CHAPERONS, "list", COUNT),
            *_grants(PODS, "delete", REMOVE_PODS),
            *_grants(CHAPERONS, "delete", REMOVE_PODS),
            *_grants(MUTATING_WEBHOOKS, "delete", REMOVE_PODS, names=(CONFIGURATION,)),
            *_grants(PODS, "patch", CLEAN),
            *_grants(TARGETS, "list patch", CLEAN),
            *_grants(CLUSTER_TARGETS, "list patch", CLEAN),
            *_grants(SECRETS, "list patch delete", CLEAN),
            *_grants(NODES, "list delete", CLEAN),
            *_grants(NAMESPACES, "list patch", CLEAN),
            *_grants(SERVICES, "get list patch delete", CLEAN),
            *_grants(SERVICES, "patch", CLEAN, sub="status"),
            *_grants(INGRESSES, "list patch delete", CLEAN),
            *_grants(CONFIGMAPS, "list delete", CLEAN),
            *_grants(SERVICE_ACCOUNTS, "list delete", CLEAN),
            *_grants(ROLES, "list delete", CLEAN),
            *_grants(NETWORK_POLICIES, "list delete", CLEAN),
            *_grants(SERVICE_EXPORTS, "list delete", CLEAN),
            *_grants(ENDPOINT_SLICES, "list delete", CLEAN),
            *_grants(ROLE_BINDINGS, "list delete", CLEAN),
            *_grants(CLUSTER_ROLE_BINDINGS, "list delete", CLEAN),
            *_grants(CLUSTER_SUMMARIES, "delete", CLEAN, names=(SUMMARY_NAME,)),
        ),
        HOME: (
            *_grants(DEPLOYMENTS, "list", STOP),
            *_grants(DEPLOYMENTS, "patch", STOP, sub="scale"),
            *_grants(LEASES, "delete", CLEAN, names=(LEASE_CONTROLLERS, LEASE_CANDIDATES)),
            *_grants(SECRETS, "delete", CLEAN, names=(WEBHOOK_SECRET,)),
        ),
    },
)

UPGRADE = Account(
    "upgrade",
    {
        "": (
            *_grants(CLUSTER_ROLES, "get", KEEP, names=(SOURCE_ROLE,)),
            *_grants(ROLE_BINDINGS, "list create", KEEP),
            *_grants(CLUSTER_ROLE_BINDINGS, "list create", KEEP),
            *_grants(CLUSTER_ROLES, "bind", KEEP, names=FEATURE_ROLES),
        ),
    },
)


CANDIDATES = Account(
    "candidates",
    {
        "": (
            *_grants(CHAPERONS, "get list watch patch", HOLD),
            *_grants(PODS, "get list watch", HOLD),
            *_grants(PODS, "create", HOLD, sub="binding"),
        ),
        HOME: (
            *_grants(LEASES, "create", ONE_SCHEDULER),
            *_grants(LEASES, "get update", ONE_SCHEDULER, names=(LEASE_CANDIDATES,)),
        ),
    },
)
"""Candidate scheduler and bind extender, beside the roles that Kubernetes has for its schedulers."""

ACCOUNTS = (AGENT, WEBHOOK, UNINSTALL, UPGRADE, CANDIDATES)


def blocks(account: Account) -> dict[str, list[dict[str, Any]]]:
    """Rules by scope and feature, as the chart keeps them: it leaves out the features that are switched off."""
    return {
        scope or "cluster": [
            {"feature": feature, "rules": rules([grant for grant in grants if grant.feature == feature])}
            for feature in dict.fromkeys(grant.feature for grant in grants)
        ]
        for scope, grants in account.grants.items()
    }


def role_objects(account: Account, home: str, *, without: Collection[str] = ()) -> list[dict[str, Any]]:
    """Roles of an account that runs in namespace `home`, with their bindings; `without` are features switched off."""
    found: list[dict[str, Any]] = []
    for scope, grants in account.grants.items():
        namespace = home if scope == HOME else scope
        name = f"flotilla-{account.name}" + (f"-{scope}" if scope else "")
        found += _bound(name, account.name, home, namespace, [each for each in grants if each.feature not in without])
    return found


def _bound(name: str, account: str, home: str, namespace: str, grants: Iterable[Grant]) -> list[dict[str, Any]]:
    kind, metadata = ("Role", {"name": name, "namespace": namespace}) if namespace else ("ClusterRole", {"name": name})
    group = CLUSTER_ROLES.group
    head = {"apiVersion": CLUSTER_ROLES.api_version, "metadata": metadata}
    subject = {"kind": SERVICE_ACCOUNTS.name, "name": f"flotilla-{account}", "namespace": home}
    return [
        {**head, "kind": kind, "rules": rules(grants)},
        {
            **head,
            "kind": f"{kind}Binding",
            "roleRef": {"apiGroup": group, "kind": kind, "name": name},
            "subjects": [subject],
        },
    ]
