"""Grants of Flotilla's processes in their own cluster: one table each, with a verb and its feature per entry.

`hack/crds` writes the chart's roles from these tables. The agents and webhooks of the sandbox have exactly
these rights, so that tests find missing verbs. Switching off a feature removes its verbs.
"""

from agent.api import gatewayroles, hubroles, placementroles
from agent.api.accounts import HOME, Account, grants
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
    CONNECTORS,
    CRON_JOBS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    EVENTS,
    INGRESSES,
    JOBS,
    LEASES,
    LINKERD_LINKS,
    LISTENERS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NETWORK_POLICIES,
    NODE_METRICS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PLACEMENTS,
    POD_METRICS,
    PODS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICE_EXPORTS,
    SERVICE_IMPORTS,
    SERVICE_LINKS,
    SERVICES,
    SIGNERS,
    SITES,
    SKUPPER_GRANTS,
    SKUPPER_LINKS,
    SOURCES,
    STATEFUL_SETS,
    SUBJECT_ACCESS_REVIEWS,
    TARGETS,
    TOKEN_REVIEWS,
    VALIDATING_WEBHOOKS,
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
from agent.api.roles import CLUSTER_SUMMARY_VIEWER_ROLE, FEATURES, SOURCE_ROLE, feature_role

FEATURE_ROLES = tuple(feature_role(SOURCE_ROLE, name) for name in FEATURES)

CONFIGURATION = "multicluster-scheduler"
"""Name of both webhook configurations."""
WEBHOOK_SECRET = "multicluster-scheduler-webhook-cert"

LEADER = "one leader among replicas"
SCHEDULE = "scheduling of proxy pods"
STATUS = "status of delegates on proxy pods"
ELECT = "namespaces that elect by default"
TARGET = "targets, their conditions and credentials"
VIRTUAL_NODES = "virtual nodes"
NODE_LEASES = "virtual nodes stay alive"
DELEGATES = "delegates of other clusters"
FENCE = "fences, which stop delegates whose source is cut off"
TELL = "events"
SUMMARY = "ClusterSummary of this cluster"
PROPERTIES = "properties of this cluster"
USED = "measured usage of nodes in the ClusterSummary"
SOURCE = "rights of other clusters"
SOURCES_READ = "Sources: rights of other clusters, and what their pods may contain"
SELF_TARGETS = "this cluster as a target of its own"
ACCOUNTS_READ = "service accounts of Sources and of pods"
BINDINGS_READ = "bindings of Sources and of the pods' service accounts"
SOURCE_API = "access of pods in targets to this cluster's API"
FOLLOW_RULES = "roles and network policies follow pods"
FOLLOW = "config maps and secrets follow pods"
FOLLOW_CLAIMS = "volume claims follow pods"
MOVES = "running pods move to other targets"
STAND_INS = "stand-ins for volumes in targets"
SHARE = "services and ingresses across clusters"
SHARE_BY_MCS = "services across clusters by the Multi-Cluster Services API"
SERVICE_LINKS_KEPT = "ServiceLinks of shared Services, and their state"
SHARE_BY_SKUPPER = "services across clusters by Skupper"
SHARE_BY_LINKERD = "services across clusters by Linkerd"
SERVE_MCS = "imports of exported Services in all clusters"
LINK_NAMESPACES = "ServiceLinks for callers in other namespaces"
KUBELET = "logs, exec and the like on virtual nodes"
KUBELET_APPROVAL = "approval of the serving certificates of virtual nodes"

CERTIFICATE = "its own CA and certificate"
SERVE = "the certificate it serves"
CALLED = "check of its own registration"
TRUST = "CA in its own registration"
REGISTER = "creation of its own registration"
WARN = "known targets"
SECRETS_OF_TARGETS = "warnings about the Secrets of targets"
ASK_FOR_USERS = "rights of the requesting user on Secrets and cluster sets"

HOLD = "candidates keep their nodes until their source decides"
ONE_SCHEDULER = "one candidate scheduler works among replicas"

_STREAMS = ("exec", "attach", "portforward")
_HOOKS = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
_TARGETS, _SOURCES, _OF_SKUPPER = (TARGETS, CLUSTER_TARGETS), (SOURCES, CLUSTER_SOURCES), (LISTENERS, CONNECTORS)
_MOVED = (DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS, JOBS)


AGENT = Account(
    "agent",
    {
        "": (
            *grants(PODS, "get list watch patch delete", SCHEDULE),
            *grants(PODS, "create", SCHEDULE, sub="binding"),
            *grants(PODS, "patch", STATUS, sub="status"),
            *grants(NAMESPACES, "get list watch patch", ELECT),
            *(each for kind in _TARGETS for each in grants(kind, "get list watch patch", TARGET)),
            *(each for kind in _TARGETS for each in grants(kind, "patch", TARGET, sub="status")),
            *grants(SECRETS, "get list watch patch", TARGET),
            *grants(NODES, "get list watch create patch delete", VIRTUAL_NODES),
            *grants(NODES, "patch", VIRTUAL_NODES, sub="status"),
            *grants(CHAPERONS, "get list watch patch", DELEGATES),
            *grants(CHAPERONS, "update", DELEGATES, sub="status"),
            # In clusters that protect owner references (OpenShift): a delegate blocks the deletion of its
            # chaperon.
            *grants(CHAPERONS, "update", DELEGATES, sub="finalizers"),
            *grants(PODS, "create", DELEGATES),
            *(each for sub in ("resize", "ephemeralcontainers") for each in grants(PODS, "patch", DELEGATES, sub=sub)),
            *grants(LEASES, "list watch", FENCE),
            *grants(EVENTS, "create get patch", TELL),
            *grants(CLUSTER_SUMMARIES, "create", SUMMARY),
            *grants(CLUSTER_SUMMARIES, "list watch patch", SUMMARY, names=(SUMMARY_NAME,)),
            *grants(NODE_METRICS, "list", USED),
            *grants(CLUSTER_PROPERTIES, "list watch", PROPERTIES),
            *grants(CLUSTER_CLAIMS, "list watch", PROPERTIES),
            *(each for kind in _SOURCES for each in grants(kind, "list watch", SOURCES_READ)),
            *(each for kind in _SOURCES for each in grants(kind, "get", SOURCE)),
            *(each for kind in _SOURCES for each in grants(kind, "patch", SOURCE, sub="status")),
            *grants(SERVICE_ACCOUNTS, "create", SOURCE),
            *grants(SERVICE_ACCOUNTS, "get list watch", ACCOUNTS_READ),
            *grants(ROLE_BINDINGS, "get list watch", BINDINGS_READ),
            *grants(ROLE_BINDINGS, "create patch delete", SOURCE),
            *grants(CLUSTER_ROLE_BINDINGS, "get list watch create patch delete", SOURCE),
            *grants(CLUSTER_ROLES, "bind", SOURCE, names=(SOURCE_ROLE, *FEATURE_ROLES, CLUSTER_SUMMARY_VIEWER_ROLE)),
            *grants(CHAPERONS, "create delete", SELF_TARGETS),
            *grants(EVENTS, "list watch", SELF_TARGETS),
            *grants(RESOURCE_QUOTAS, "list watch", SELF_TARGETS),
            *grants(PODS, "get", SELF_TARGETS, sub="log"),
            *(each for sub in _STREAMS for each in grants(PODS, "create", SELF_TARGETS, sub=sub)),
            *grants(POD_METRICS, "list", SELF_TARGETS),
            *grants(CERTIFICATE_REQUESTS, "create list watch", KUBELET),
            *grants(TOKEN_REVIEWS, "create", KUBELET),
            *grants(SUBJECT_ACCESS_REVIEWS, "create", KUBELET),
            *grants(CERTIFICATE_REQUESTS, "update", KUBELET_APPROVAL, sub="approval"),
            *grants(SIGNERS, "approve", KUBELET_APPROVAL, names=(KUBELET_SIGNER,)),
            *grants(CONFIGMAPS, "get list watch patch", FOLLOW),
            *grants(PERSISTENT_VOLUME_CLAIMS, "get list watch patch", FOLLOW_CLAIMS),
            *grants(PERSISTENT_VOLUMES, "list watch delete", FOLLOW_CLAIMS),
            *grants(PERSISTENT_VOLUMES, "create patch", STAND_INS),
            *grants(PERSISTENT_VOLUME_CLAIMS, "patch", STAND_INS, sub="status"),
            *(each for kind in _MOVED for each in grants(kind, "get list watch", MOVES)),
            *grants(CRON_JOBS, "list watch", MOVES),
            *grants(PODS, "create", MOVES, sub="eviction"),
            *grants(SERVICE_ACCOUNTS, "create", SOURCE_API, sub="token"),
            *(each for kind in (ROLES, NETWORK_POLICIES) for each in grants(kind, "get list watch", FOLLOW_RULES)),
            *grants(SERVICES, "get list watch patch", SHARE),
            *grants(SERVICES, "patch", SHARE, sub="status"),
            *grants(SERVICES, "create delete", LINK_NAMESPACES),
            *grants(INGRESSES, "get list watch patch", SHARE),
            *grants(ENDPOINT_SLICES, "list watch create patch delete", SHARE),
            *grants(SERVICE_EXPORTS, "get list create delete", SHARE_BY_MCS),
            *(each for kind in _OF_SKUPPER for each in grants(kind, "list create patch delete", SHARE_BY_SKUPPER)),
            *grants(SITES, "list create", SHARE_BY_SKUPPER),
            *grants(SKUPPER_GRANTS, "get create delete", SHARE_BY_SKUPPER),
            *grants(SKUPPER_LINKS, "list", SHARE_BY_SKUPPER),
            *grants(LINKERD_LINKS, "list", SHARE_BY_LINKERD),
            *grants(SERVICES, "create delete", SERVE_MCS),
            *grants(SERVICE_EXPORTS, "watch", SERVE_MCS),
            *grants(SERVICE_EXPORTS, "patch", SERVE_MCS, sub="status"),
            *grants(SERVICE_IMPORTS, "list watch create patch delete", SERVE_MCS),
            *grants(SERVICE_IMPORTS, "patch", SERVE_MCS, sub="status"),
            *grants(SERVICE_IMPORTS, "get", SERVICE_LINKS_KEPT),
            *grants(SERVICE_LINKS, "list watch create delete", SERVICE_LINKS_KEPT),
            *grants(SERVICE_LINKS, "patch", SERVICE_LINKS_KEPT, sub="status"),
            *gatewayroles.AGENT_GRANTS,
            *placementroles.AGENT_GRANTS,
            *hubroles.AGENT_GRANTS,
        ),
        HOME: (
            *grants(LEASES, "create", LEADER),
            *grants(LEASES, "get update patch", LEADER, names=(LEASE_CONTROLLERS,)),
            *gatewayroles.AGENT_AT_HOME,
        ),
        NODE_LEASE_NAMESPACE: grants(LEASES, "get create patch", NODE_LEASES),
        CLIENT_CA_NAMESPACE: grants(CONFIGMAPS, "list watch", KUBELET, names=(CLIENT_CA_CONFIGMAP,)),
    },
)

WEBHOOK = Account(
    "webhook",
    {
        "": (
            *grants(TARGETS, "list watch", WARN),
            *grants(CLUSTER_TARGETS, "list watch", WARN),
            *grants(SECRETS, "get", SECRETS_OF_TARGETS),
            # Used to warn a user who applies a workload for a Placement that does not exist.
            *grants(PLACEMENTS, "get", placementroles.FOLLOW_PLACEMENTS),
            *grants(SUBJECT_ACCESS_REVIEWS, "create", ASK_FOR_USERS),
            *(each for kind in _HOOKS for each in grants(kind, "get list watch", CALLED, names=(CONFIGURATION,))),
            *(each for kind in _HOOKS for each in grants(kind, "patch", TRUST, names=(CONFIGURATION,))),
            *(each for kind in _HOOKS for each in grants(kind, "create", REGISTER)),
        ),
        HOME: (
            # The chart creates the Secret: a right to create Secrets could create one with another account's
            # token.
            *grants(SECRETS, "patch", CERTIFICATE, names=(WEBHOOK_SECRET,)),
            *grants(SECRETS, "get list watch", SERVE, names=(WEBHOOK_SECRET,)),
        ),
    },
)

CANDIDATES = Account(
    "candidates",
    {
        "": (
            *grants(CHAPERONS, "get list watch patch", HOLD),
            *grants(PODS, "get list watch", HOLD),
            *grants(PODS, "create", HOLD, sub="binding"),
        ),
        HOME: (
            *grants(LEASES, "create", ONE_SCHEDULER),
            *grants(LEASES, "get update", ONE_SCHEDULER, names=(LEASE_CANDIDATES,)),
        ),
    },
)
"""Candidate scheduler and bind extender, in addition to the roles that Kubernetes has for its schedulers."""

ACCOUNTS = (AGENT, WEBHOOK, CANDIDATES, gatewayroles.GATEWAY)
"""Accounts except those of the chart's hooks (`hookroles`)."""
