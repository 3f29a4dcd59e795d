"""A client with the rights of an account that is limited to given rules."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from agent.api.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, SERVICE_ACCOUNTS
from agent.kube.client import Client
from hack.lab.sandbox import Cluster
from tests.controllers.target_links import kubeconfig
from tests.e2e.fleet import token_of
from tests.waiting import allowed

Raw = dict[str, Any]


@contextlib.asynccontextmanager
async def limited(
    cluster: Cluster, client: Client, namespace: str, folder: Path, rules: Sequence[Raw]
) -> AsyncIterator[Cluster]:
    """Yield the client. Its rules are in the ClusterRole named after the namespace, which the test may patch."""
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "agent"}}, namespace)
    await client.create(CLUSTER_ROLES, {"metadata": {"name": namespace}, "rules": list(rules)})
    reference = {"apiGroup": CLUSTER_ROLES.group, "kind": "ClusterRole", "name": namespace}
    subject = {"kind": "ServiceAccount", "name": "agent", "namespace": namespace}
    bound = {"metadata": {"name": namespace}, "roleRef": reference, "subjects": [subject]}
    await client.create(CLUSTER_ROLE_BINDINGS, bound)
    (group, *_), (resource, *_), (verb, *_) = (rules[0][key] for key in ("apiGroups", "resources", "verbs"))
    await allowed(client, namespace, "agent", group=group, resource=resource, verb=verb)
    path = folder / "kubeconfig"
    path.write_text(kubeconfig(cluster, user={"token": await token_of(client, "agent", namespace)}))
    try:
        yield cast("Cluster", SimpleNamespace(kubeconfig=path))
    finally:
        await client.delete(CLUSTER_ROLE_BINDINGS, namespace)
        await client.delete(CLUSTER_ROLES, namespace)
