"""Objects that a cluster needs to become a hub, and bootstrap tokens with which other clusters ask to join."""

import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import yaml

from agent.api.crds import hub_crds, placement_crds
from agent.api.hubroles import CLUSTER_INFO, PUBLIC, hub_objects, kind_of
from agent.api.kinds import CONFIGMAPS, CRDS, DEPLOYMENTS, MANAGED_CLUSTERS, SECRETS
from agent.api.names.hub import ACCEPTS, BOOTSTRAP_GROUP, LABEL_TOKEN, SHARED_ROLES, TOKEN_LABEL_VALUE, token_group
from agent.api.names.ocm import OURS
from agent.base.clock import stamp
from agent.cli.options import Failed
from agent.kube import kubeconfig
from agent.kube.client import Client
from agent.kube.errors import AlreadyExists, InvalidConfig, NotFound
from agent.kube.kubeconfig import Entry

Raw = dict[str, Any]

SYSTEM = "kube-system"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_AGENTS = "app.kubernetes.io/name=flotilla,app.kubernetes.io/component=agent"


@dataclass(frozen=True)
class Token:
    """A bootstrap token: `ID.SECRET`."""

    ident: str
    secret: str

    def __str__(self) -> str:
        return f"{self.ident}.{self.secret}"


def new_token() -> Token:
    """Return a new token in the form that Kubernetes prescribes."""
    return Token(secrets.token_hex(3), secrets.token_hex(8))


def check_name(name: str) -> None:
    """Raise Failed if no cluster can have this name."""
    if not _NAME.fullmatch(name):
        raise Failed(f"{name!r} is no name of a cluster: use at most 63 lower-case letters, digits and dashes")
    if name in SHARED_ROLES:
        raise Failed(f"{name!r} is no name of a cluster: a ClusterRole that all members share has it; choose another")


def token_secret(token: Token, cluster: str, expires: datetime, *, accepts: bool) -> Raw:
    """Return the Secret of a bootstrap token that registers one cluster."""
    metadata: Raw = {"name": f"bootstrap-token-{token.ident}", "namespace": SYSTEM}
    metadata["labels"] = {LABEL_TOKEN: TOKEN_LABEL_VALUE}
    if accepts:
        metadata["annotations"] = {ACCEPTS: cluster}
    data = {
        "description": f"cluster {cluster} asks this hub to join",
        "token-id": token.ident,
        "token-secret": token.secret,
        "expiration": stamp(expires),
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": f"{BOOTSTRAP_GROUP},{token_group(cluster)}",
    }
    head = {"apiVersion": SECRETS.api_version, "kind": SECRETS.name}
    return {**head, "metadata": metadata, "type": "bootstrap.kubernetes.io/token", "stringData": data}


def as_kubeconfig(hub: Entry, token: Token) -> str:
    """Return a bootstrap kubeconfig."""
    return str(yaml.safe_dump(kubeconfig.with_token("hub", hub, "", str(token)), sort_keys=False))


def as_command(hub: Entry, token: Token, cluster: str) -> str:
    """Return the command that installs an agent of Open Cluster Management in the cluster."""
    return f"clusteradm join --hub-token {token} --hub-apiserver {hub['server']} --cluster-name {cluster}"


async def create_token(
    client: Client, cluster: str, now: datetime, seconds: float, *, accepts: bool
) -> tuple[Entry, Token]:
    """Create a bootstrap token for one cluster. Return the hub's entry of kubeconfigs, and the token.

    Raises Failed, KubeError.
    """
    check_name(cluster)
    hub = await public_entry(client)
    if hub is None:
        raise Failed(f"there is no usable ConfigMap {PUBLIC}/{CLUSTER_INFO} with this hub's address: flotilla hub init")
    try:
        found = await client.get(MANAGED_CLUSTERS, cluster)
    except NotFound:
        found = {"metadata": {}}
    if OURS in (found["metadata"].get("labels") or {}):
        raise Failed(f"ManagedCluster {cluster} belongs to a Target of this cluster: choose another name")
    token = new_token()
    await client.create(SECRETS, token_secret(token, cluster, now + timedelta(seconds=seconds), accepts=accepts))
    return hub, token


async def public_entry(client: Client) -> Entry | None:
    """Return the entry of this cluster that anybody may read; None if there is none. Raises KubeError."""
    try:
        found = await client.get(CONFIGMAPS, CLUSTER_INFO, PUBLIC)
        document = kubeconfig.document_of((found.get("data") or {}).get("kubeconfig") or "")
        entry: Entry = document["clusters"][0]["cluster"]
    except (NotFound, InvalidConfig, LookupError, TypeError):
        return None
    return entry if entry.get("server") else None


async def initialise(client: Client, entry: Entry) -> list[str]:
    """Create what a hub needs and the chart does not bring. Return a line for each change. Raises Failed, KubeError.

    :param entry: entry of this cluster for kubeconfigs of other clusters
    """
    done = []
    agent = await _agent(client)
    if agent is None:
        await _install(client)
        done.append("CRDs, roles and policies are applied: start the agent with --hub")
    elif "--hub" not in _arguments(agent):
        metadata = agent["metadata"]
        release = (metadata.get("annotations") or {}).get("meta.helm.sh/release-name", "RELEASE")
        raise Failed(
            f"the chart of release {release} has no hub: helm upgrade {release} CHART -n {metadata['namespace']}"
            " --reuse-values --set hub.enabled=true, then this again"
        )
    else:
        done.append("the chart has brought CRDs, roles and policies")
    done.append(await _publish(client, entry))
    return done


async def _agent(client: Client) -> Raw | None:
    found = await client.list(DEPLOYMENTS, labels=_AGENTS)
    return found[0] if found else None


def _arguments(deployment: Raw) -> list[str]:
    containers = deployment["spec"]["template"]["spec"]["containers"]
    return [argument for each in containers for argument in each.get("args") or ()]


async def _install(client: Client) -> None:
    for crd in (*placement_crds(), *hub_crds()):
        name = crd["metadata"]["name"]
        try:
            there = await client.get(CRDS, name)
        except NotFound:
            there = crd
        if OURS not in (there["metadata"].get("labels") or {}):
            raise Failed(f"CustomResourceDefinition {name} is another hub's, whose controllers serve its objects")
        await client.patch(CRDS, name, crd, style="apply")
    for obj in hub_objects(""):
        metadata = obj["metadata"]
        await client.patch(kind_of(obj), metadata["name"], obj, metadata.get("namespace"), style="apply")


async def _publish(client: Client, entry: Entry) -> str:
    """Create the ConfigMap with the hub's address, unless the cluster has one. Return a line about the address."""
    there = await public_entry(client)
    if there is not None:
        return f"clusters reach this hub at {there['server']} (ConfigMap {PUBLIC}/{CLUSTER_INFO}, which existed)"
    document = {"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "", "cluster": entry}]}
    data = {"kubeconfig": yaml.safe_dump(document, sort_keys=False)}
    head = {"apiVersion": CONFIGMAPS.api_version, "kind": CONFIGMAPS.name}
    manifest = {**head, "metadata": {"name": CLUSTER_INFO, "namespace": PUBLIC}, "data": data}
    try:
        await client.create(CONFIGMAPS, manifest)
    except AlreadyExists:
        raise Failed(
            f"ConfigMap {PUBLIC}/{CLUSTER_INFO} has no kubeconfig with an address: correct it, or delete it, then this"
            " again"
        ) from None
    return f"clusters reach this hub at {entry['server']}"
