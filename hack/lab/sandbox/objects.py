"""Initial objects of every cluster of a sandbox, and objects that join two clusters."""

import contextlib
import functools
import json
from pathlib import Path

import yaml

from agent.api.accounts import Account, role_objects
from agent.api.admission import policies
from agent.api.conditions import is_true
from agent.api.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CRDS,
    LEASES,
    NAMESPACES,
    NODES,
    POLICIES,
    POLICY_BINDINGS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SOURCES,
    TARGETS,
    Kind,
)
from agent.api.names import NODE_LEASE_NAMESPACE
from agent.api.ownroles import AGENT, WEBHOOK, WEBHOOK_SECRET
from agent.api.roles import cluster_roles
from agent.kube import config
from agent.kube.client import Client
from agent.kube.errors import AlreadyExists, KubeError, NotFound
from agent.kube.session import Session
from hack.lab.sandbox import kubeconfig, manifests
from hack.lab.sandbox.plan import ClusterPlan

REPOSITORY = Path(__file__).parents[3]
CRD_FOLDER = REPOSITORY / "charts" / "flotilla" / "files" / "crds"

_RBAC = {kind.name: kind for kind in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS)}
_ADMISSION = {kind.name: kind for kind in (POLICIES, POLICY_BINDINGS)}
_NOT_READY = "node.kubernetes.io/not-ready"
_CONNECT_SECONDS = 10.0
"""Timeout of a connection in seconds. Clusters share a machine, which may be busy."""
_SETUP_SECONDS = 60.0
"""Timeout of a request in seconds, for an API server that has just been started together with other clusters."""


def connect(kubeconfig: Path, *, name: str = "", timeout: float = 10.0) -> Client:
    """Return a client for a kubeconfig; close its `session` at the end."""
    return Client(Session(config.load(str(kubeconfig)), name=name, timeout=timeout, connecting=_CONNECT_SECONDS))


def connect_for_setup(kubeconfig: Path, *, name: str) -> Client:
    """Return a client for an API server that has just been started: a response may take a minute."""
    return connect(kubeconfig, name=name, timeout=_SETUP_SECONDS)


async def is_ready(client: Client) -> bool:
    """Return whether the API server answers and has finished starting."""
    try:
        await client.session.request("GET", "/readyz", timeout=5.0)
    except KubeError:
        return False
    return True


async def apply_definitions(client: Client) -> None:
    """Apply the CRDs, and the roles that agents bind for Sources."""
    for crd in _crds():
        await apply(client, CRDS, crd)
    for role in cluster_roles():
        await apply(client, CLUSTER_ROLES, role)


async def apply_policies(client: Client) -> None:
    """Apply the admission policies, which contain the names of the cluster's own agent and webhook."""
    for obj in policies(manifests.user(AGENT.name), manifests.AGENT_NAMESPACE, manifests.user(WEBHOOK.name)):
        await apply(client, _ADMISSION[obj["kind"]], obj)


async def account_token(client: Client, account: Account) -> str:
    """Create the service account of the cluster's own agent or webhook with the chart's rights, and return a token.

    API servers cache tokens, but verify a client certificate at every request.
    """
    name, namespace = manifests.account_name(account.name), manifests.AGENT_NAMESPACE
    await apply(client, SERVICE_ACCOUNTS, manifests.service_account(name, namespace))
    for obj in role_objects(account, namespace):
        await apply(client, _RBAC[obj["kind"]], obj)
    if account is WEBHOOK:
        # As in the chart: the webhook writes the data, but has no right to create Secrets.
        await apply(client, SECRETS, manifests.empty_secret(WEBHOOK_SECRET, namespace))
    return await token(client, namespace, name)


async def token(client: Client, namespace: str, service_account: str) -> str:
    """Return a token of a service account that expires after any sandbox has ended."""
    path = SERVICE_ACCOUNTS.path(namespace, service_account, "token")
    answer = await client.session.request("POST", path, body=json.dumps(manifests.token_request()).encode())
    return str(json.loads(answer)["status"]["token"])


async def is_served(client: Client) -> bool:
    """Return whether all CRDs are established."""
    try:
        return all(_is_established(crd) for crd in await client.list(CRDS))
    except KubeError:
        return False


async def apply_nodes(client: Client, cluster: ClusterPlan, version: str) -> None:
    """Create the cluster's fake nodes; existing ones stay unchanged. A real node registers itself."""
    for number in range(cluster.nodes.fake):
        try:
            await client.create(NODES, manifests.node(cluster, number, version))
        except AlreadyExists:
            continue


async def name_pod_ranges(client: Client, cluster: ClusterPlan) -> None:
    """Set the pod ranges of the real node; its network plugin reads them from a file."""
    for node in await client.list(NODES, labels="type=real"):
        if not node["spec"].get("podCIDR"):
            ranges = {"podCIDR": cluster.real_pod_ranges[0], "podCIDRs": [*cluster.real_pod_ranges]}
            await client.patch(NODES, node["metadata"]["name"], {"spec": ranges})


async def apply(client: Client, kind: Kind, obj: manifests.Manifest) -> None:
    """Create or change an object by server-side apply."""
    metadata = obj["metadata"]
    await client.patch(kind, metadata["name"], obj, metadata.get("namespace"), style="apply")


async def join_target(
    source: Client, source_plan: ClusterPlan, target: Client, target_plan: ClusterPlan, authority: bytes
) -> None:
    """Let the source run pods of its joined namespace in the target.

    The target's agent binds the roles once it observes the Source. `authority` is the target's CA certificate
    (PEM).
    """
    await apply(target, SOURCES, manifests.source(source_plan.name))
    await apply(target, SERVICE_ACCOUNTS, manifests.service_account(source_plan.name))
    credentials = await token(target, manifests.NAMESPACE, source_plan.name)
    config = kubeconfig.render(target_plan.name, target_plan.server, authority, token=credentials)
    await apply(source, SECRETS, manifests.secret(target_plan.name, config))
    await apply(source, TARGETS, manifests.target(target_plan.name))


async def join_source(source: Client, plan: ClusterPlan, *, self_target: bool) -> None:
    """Let pods of the source's joined namespace be elected. With `self_target` the source is a target, too."""
    await apply(source, NAMESPACES, manifests.enabled_namespace())
    if self_target:
        await apply(source, TARGETS, manifests.self_target(plan.name))


async def is_usable(client: Client, cluster: ClusterPlan) -> bool:
    """Return whether pods can be created and scheduled: the default service account exists and every node is ready."""
    try:
        await client.get(SERVICE_ACCOUNTS, "default", "default")
        nodes = await client.list(NODES, labels="type in (kwok,real)")
    except KubeError:
        return False
    return sum(1 for node in nodes if _is_node_ready(node)) >= cluster.nodes.count + cluster.nodes.fakes


async def end_leases(client: Client) -> None:
    """Delete the leases of fake nodes if possible: a restarted kwok would wait until they expire."""
    with contextlib.suppress(KubeError):
        for node in await client.list(NODES, labels="type=kwok"):
            with contextlib.suppress(NotFound):
                await client.delete(LEASES, node["metadata"]["name"], NODE_LEASE_NAMESPACE)


def _is_node_ready(node: manifests.Manifest) -> bool:
    taints = node.get("spec", {}).get("taints") or ()
    return is_true(node.get("status", {}).get("conditions"), "Ready") and all(
        taint["key"] != _NOT_READY for taint in taints
    )


@functools.cache
def _crds() -> tuple[manifests.Manifest, ...]:
    return tuple(yaml.safe_load(path.read_text()) for path in sorted(CRD_FOLDER.glob("*.yaml")))


def _is_established(crd: manifests.Manifest) -> bool:
    return is_true(crd.get("status", {}).get("conditions"), "Established")
