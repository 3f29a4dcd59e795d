"""Grants of the chart's hooks for uninstallation and upgrades, one table each (see `ownroles`)."""

from agent.api.accounts import HOME, Account, grants
from agent.api.kinds import (
    CHAPERONS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CLUSTER_SUMMARIES,
    CLUSTER_TARGETS,
    CONFIGMAPS,
    CONNECTORS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    GATEWAY_PEERS,
    INGRESSES,
    LEASES,
    LISTENERS,
    MULTI_CLUSTER_NETWORKS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NETWORK_POLICIES,
    NODES,
    PERSISTENT_VOLUMES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SCHEDULING_MANIFESTS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICE_EXPORTS,
    SERVICE_LINKS,
    SERVICES,
    TARGETS,
)
from agent.api.names import LEASE_CANDIDATES, LEASE_CONTROLLERS, LEASE_SOURCES, SUMMARY_NAME
from agent.api.names.links import GATEWAY_SECRET
from agent.api.ownroles import CONFIGURATION, FEATURE_ROLES, WEBHOOK_SECRET
from agent.api.roles import SOURCE_ROLE

KEEP = "existing sources keep their rights"

COUNT = "refusal while pods run"
REMOVE_PODS = "deletion of pods, with policy delete"
STOP = "stop of agents and webhooks"
CLEAN = "removal of Flotilla's objects and keys"

_HELD = (TARGETS, CLUSTER_TARGETS, MULTI_CLUSTER_NETWORKS, SCHEDULING_MANIFESTS)
"""Kinds whose objects have a finalizer of Flotilla and may remain after the uninstallation."""
_OF_SERVICES = (SERVICE_EXPORTS, ENDPOINT_SLICES, SERVICE_LINKS, GATEWAY_PEERS, LISTENERS, CONNECTORS)
_FOLLOWED = (CONFIGMAPS, SERVICE_ACCOUNTS, ROLES, NETWORK_POLICIES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS)


UNINSTALL = Account(
    "uninstall",
    {
        "": (
            *grants(PODS, "list", COUNT),
            *grants(CHAPERONS, "list", COUNT),
            *grants(PODS, "delete", REMOVE_PODS),
            *grants(CHAPERONS, "delete", REMOVE_PODS),
            *grants(MUTATING_WEBHOOKS, "delete", REMOVE_PODS, names=(CONFIGURATION,)),
            *grants(PODS, "patch", CLEAN),
            *(each for kind in _HELD for each in grants(kind, "list patch", CLEAN)),
            *grants(SECRETS, "list patch delete", CLEAN),
            *grants(NODES, "list delete", CLEAN),
            *grants(NAMESPACES, "list patch", CLEAN),
            *grants(SERVICES, "get list patch delete", CLEAN),
            *grants(SERVICES, "patch", CLEAN, sub="status"),
            *grants(INGRESSES, "list patch delete", CLEAN),
            *(each for kind in _FOLLOWED for each in grants(kind, "list delete", CLEAN)),
            *(each for kind in _OF_SERVICES for each in grants(kind, "list delete", CLEAN)),
            *grants(PERSISTENT_VOLUMES, "list delete", CLEAN),
            *grants(CLUSTER_SUMMARIES, "delete", CLEAN, names=(SUMMARY_NAME,)),
        ),
        HOME: (
            *grants(DEPLOYMENTS, "list", STOP),
            *grants(DEPLOYMENTS, "patch", STOP, sub="scale"),
            *grants(LEASES, "delete", CLEAN, names=(LEASE_CONTROLLERS, LEASE_CANDIDATES, LEASE_SOURCES)),
            *grants(SECRETS, "delete", CLEAN, names=(WEBHOOK_SECRET, GATEWAY_SECRET)),
        ),
    },
)

UPGRADE = Account(
    "upgrade",
    {
        "": (
            *grants(CLUSTER_ROLES, "get", KEEP, names=(SOURCE_ROLE,)),
            *grants(ROLE_BINDINGS, "list create", KEEP),
            *grants(CLUSTER_ROLE_BINDINGS, "list create", KEEP),
            *grants(CLUSTER_ROLES, "bind", KEEP, names=FEATURE_ROLES),
        ),
    },
)

ACCOUNTS = (UNINSTALL, UPGRADE)
