"""A pod on a virtual node of a real cluster, and its users."""

import secrets
from dataclasses import dataclass
from typing import Any

from agent.api.conditions import find_condition
from agent.api.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NODES, PODS, SERVICE_ACCOUNTS
from agent.api.names import virtual_node
from agent.clusters.deps import Deps
from agent.kube.client import Client
from agent.kubelet.controller import KubeletController
from agent.targets.target import TargetController
from agent.targets.virtual_node import VirtualNodeController
from hack.lab.sandbox.objects import token
from tests.kubelet.places import Kubelet, Placed, directly
from tests.waiting import allowed, until

Raw = dict[str, Any]
CONTROLLERS = (TargetController, VirtualNodeController, KubeletController)


@dataclass
class Scene:
    """Pod `web` on the virtual node of target `c1`; target `c2` is the same cluster again."""

    client: Client
    deps: Deps
    namespace: str
    address: str
    kubelet: Kubelet
    web: Placed

    @property
    def node(self) -> str:
        return virtual_node(self.namespace, "c1")

    def port(self, target: str = "c1") -> int:
        port = self.deps.endpoints.port(virtual_node(self.namespace, target))
        assert port is not None
        return port

    def path(self, sub: str) -> str:
        return PODS.path(self.namespace, "web", sub)

    async def logs(self, **query: str) -> bytes:
        return await self.client.session.request("GET", self.path("log"), params={"container": "main", **query})

    async def ask(self, path: str, token: str = "", *, target: str = "c1", method: str = "GET") -> tuple[int, str]:
        upgrade = ("Connection: upgrade", "Upgrade: SPDY/3.1")
        status, body = await directly(self.address, self.port(target), path, token, method, *upgrade)
        return status, body.decode()

    async def account(self, *nodes: str, **rules: list[str]) -> str:
        """Return the token of a user with this verb on subresources of nodes: these, by default all."""
        name = f"{self.namespace}-{secrets.token_hex(2)}"
        account = {"metadata": {"name": name, "namespace": self.namespace}}
        await self.client.create(SERVICE_ACCOUNTS, account)
        rule = {"apiGroups": [""], **({"resourceNames": list(nodes)} if nodes else {})}
        granted = [{**rule, "resources": [f"nodes/{sub}"], "verbs": verbs} for sub, verbs in rules.items()]
        await self.client.create(CLUSTER_ROLES, {"metadata": {"name": name}, "rules": granted})
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", **account["metadata"]}],
        }
        await self.client.create(CLUSTER_ROLE_BINDINGS, binding)
        sub, (verb, *_) = next(iter(rules.items()))
        node = nodes[0] if nodes else self.node
        asked = {"verb": verb, "version": NODES.version, "resource": NODES.plural, "subresource": sub, "name": node}
        # The kubelet API caches refusals for a while.
        await allowed(self.client, self.namespace, name, **asked)
        return await token(self.client, self.namespace, name)


async def ready(deps: Deps, *keys: tuple[str, str]) -> bool:
    """Return whether these targets are connected."""
    found = [deps.targets.get(key) for key in keys]
    return all(target is not None and target.ready for target in found)


async def condition(client: Client, node: str, status: str) -> Raw:
    async def probe() -> Raw | None:
        conditions = (await client.get(NODES, node))["status"]["conditions"]
        found = find_condition(conditions, "KubeletServing")
        return dict(found) if found and found["status"] == status else None

    return await until(probe)  # type: ignore[return-value]


async def served(client: Client, node: str) -> Raw:
    return await condition(client, node, "True")
