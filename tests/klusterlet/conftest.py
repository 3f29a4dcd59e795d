"""A hub and a member as separate clusters, and the controllers of the member."""

import base64
import contextlib
import functools
import json
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from agent.api.conditions import find_condition
from agent.api.crds.works import hub_crds, klusterlet_crds
from agent.api.kinds import (
    APPLIED_MANIFEST_WORKS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    MANIFEST_WORKS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
    Kind,
)
from agent.clusters.deps import Deps
from agent.klusterlet.controllers import build
from agent.kube.client import Client
from agent.kube.errors import NotFound
from hack.lab.sandbox import Cluster, Sandbox
from hack.lab.sandbox.objects import connect
from tests.controllers.starting import running
from tests.namespaces import clear
from tests.waiting import allowed, defined, until

Raw = dict[str, Any]

HASH = 64
ACCOUNT = "works"
"""Account by whose rights ManifestWorks without an executor are applied."""


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def hub_and_member(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    """Clusters `hub` and `member`, with the CRDs of each."""
    directory = tmp_path_factory.mktemp("works") / "two"
    async with Sandbox(directory, ["hub", "member"], "kwok:1", agents=False) as sandbox:
        for name, crds in (("hub", hub_crds()), ("member", klusterlet_crds())):
            client = connect(sandbox[name].kubeconfig, name=name)
            async with client.session:
                for crd in crds:
                    await defined(client, crd)
        yield sandbox


@dataclass
class Pair:
    """Clients with all rights, and a namespace in both clusters: in the hub that of the member's ManifestWorks."""

    hub: Client
    member: Client
    clusters: Sandbox
    namespace: str

    @contextlib.asynccontextmanager
    async def at_work(self, *, cluster: Cluster | None = None, **options: Any) -> AsyncIterator[None]:
        """Run the member's controllers, with all rights or with those of `cluster`."""
        settings = {"hub_secret": "hub-one", "namespace": self.namespace, "discovery_interval": 1.0}
        settings["works_account"] = ACCOUNT
        made: list[Any] = []

        def built(number: int) -> Callable[[Deps], Any]:
            def factory(deps: Deps) -> Any:
                if not made:
                    made.extend(build(deps, **options))
                return made[number]

            return factory

        async with running(cluster or self.clusters["member"], *map(built, range(3)), **settings):
            yield

    async def empower(self) -> None:
        """Give the account of ManifestWorks without an executor all rights."""
        bound = {
            "metadata": {"name": f"{self.namespace}-works"},
            "roleRef": {"apiGroup": CLUSTER_ROLES.group, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": self.namespace}],
        }
        await self.member.create(CLUSTER_ROLE_BINDINGS, bound)
        await allowed(self.member, self.namespace, ACCOUNT, group="", resource="pods", verb="create")

    async def disempower(self) -> None:
        """Take all rights of that account."""
        with contextlib.suppress(NotFound):
            await self.member.delete(CLUSTER_ROLE_BINDINGS, f"{self.namespace}-works")

    async def join(self, **changes: str) -> None:
        """Create the Secret with the hub's kubeconfig."""
        data = {
            "kubeconfig": self.clusters["hub"].kubeconfig.read_text(),
            "cluster-name": self.namespace,
            "agent-name": "agent-1",
            **changes,
        }
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        body = {"metadata": {"name": "hub-one"}, "data": encoded}
        with contextlib.suppress(NotFound):
            await self.member.delete(SECRETS, "hub-one", self.namespace)
        await self.member.create(SECRETS, body, self.namespace)

    def config(self, name: str, data: Mapping[str, str] | None = None, **metadata: Any) -> Raw:
        """Return a manifest of a ConfigMap."""
        metadata = {"name": name, "namespace": self.namespace, **metadata}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data or {"a": "1"})}

    async def create(self, name: str, *manifests: Raw, annotations: Raw | None = None, **spec: Any) -> Raw:
        """Create a ManifestWork."""
        metadata = {"name": name, **({"annotations": annotations} if annotations else {})}
        body = {
            "apiVersion": MANIFEST_WORKS.api_version,
            "kind": MANIFEST_WORKS.name,
            "metadata": metadata,
            "spec": {"workload": {"manifests": list(manifests)}, **spec},
        }
        return await self.hub.create(MANIFEST_WORKS, body, self.namespace)

    async def edit(self, name: str, *manifests: Raw, **spec: Any) -> Raw:
        """Replace the manifests of a ManifestWork."""
        patch = {"spec": {"workload": {"manifests": list(manifests)}, **spec}}
        return await self.hub.patch(MANIFEST_WORKS, name, patch, self.namespace)

    async def work(self, name: str) -> Raw:
        """Return a ManifestWork."""
        return await self.hub.get(MANIFEST_WORKS, name, self.namespace)

    async def delete(self, name: str) -> None:
        """Delete a ManifestWork."""
        await self.hub.delete(MANIFEST_WORKS, name, self.namespace)

    async def lose(self, name: str) -> None:
        """Delete a ManifestWork without its agent, as a restored backup does."""
        await self.hub.patch(MANIFEST_WORKS, name, NO_FINALIZERS, self.namespace)
        await self.delete(name)

    async def gone(self, name: str) -> None:
        """Wait until a ManifestWork does not exist."""
        await until(lambda: self._is_gone(self.hub, MANIFEST_WORKS, name), what=f"{name} has been deleted")

    async def lacks(self, kind: Kind, name: str) -> None:
        """Wait until the member lacks an object."""
        await until(lambda: self._is_gone(self.member, kind, name), what=f"the member lacks {name}")

    async def _is_gone(self, client: Client, kind: Kind, name: str) -> bool:
        try:
            await client.get(kind, name, self.namespace)
        except NotFound:
            return True
        return False

    async def said(
        self, name: str, type: str, *, status: str = "", message: str = "", ordinal: int | None = None
    ) -> Raw:
        """Return a condition of a ManifestWork or of one manifest, once it fits and is about the present generation."""

        async def probe() -> Raw | None:
            work = await self.work(name)
            state = work.get("status") or {}
            if ordinal is not None:
                manifests = (state.get("resourceStatus") or {}).get("manifests") or []
                state = next((each for each in manifests if each["resourceMeta"]["ordinal"] == ordinal), {})
            found = find_condition(state.get("conditions"), type)
            if found is None or found.get("observedGeneration") != work["metadata"]["generation"]:
                return None
            fits = found["status"] == (status or found["status"]) and message in found["message"]
            return dict(found) if fits else None

        return await until(probe, what=f"condition {type} {status} {message} of {name}") or {}

    async def copy(self, kind: Kind, name: str, fits: Callable[[Raw], bool] = lambda obj: True) -> Raw:
        """Return the member's object, once it fits."""

        async def probe() -> Raw | None:
            found = await self.member.get(kind, name, self.namespace)
            return found if fits(found) else None

        return await until(probe, what=f"{kind} {name} in the member") or {}

    async def applied(self, name: str) -> Raw | None:
        """Return the AppliedManifestWork of a ManifestWork of this pair; None without one."""
        for each in await self.member.list(APPLIED_MANIFEST_WORKS):
            if each["metadata"]["name"][HASH + 1 :] == name:
                return each
        return None

    async def tidy(self) -> None:
        """Remove everything that a test has left."""
        for work in await self.hub.list(MANIFEST_WORKS, self.namespace):
            await self.hub.patch(MANIFEST_WORKS, work["metadata"]["name"], NO_FINALIZERS, self.namespace)
            with contextlib.suppress(NotFound):
                await self.hub.delete(MANIFEST_WORKS, work["metadata"]["name"], self.namespace)
        for each in await self.member.list(APPLIED_MANIFEST_WORKS):
            with contextlib.suppress(NotFound):
                await self.member.patch(APPLIED_MANIFEST_WORKS, each["metadata"]["name"], NO_FINALIZERS)
                await self.member.delete(APPLIED_MANIFEST_WORKS, each["metadata"]["name"])


NO_FINALIZERS: Raw = {"metadata": {"finalizers": None}}


@pytest_asyncio.fixture
async def pair(hub_and_member: Sandbox) -> AsyncIterator[Pair]:
    """A hub and a member that has its Secret."""
    hub, member = (connect(hub_and_member[name].kubeconfig, name=name) for name in ("hub", "member"))
    name = f"test-{secrets.token_hex(4)}"
    async with hub.session, member.session:
        for client in (hub, member):
            await client.create(NAMESPACES, {"metadata": {"name": name}})
            await until(functools.partial(client.get, SERVICE_ACCOUNTS, "default", name))
        pair = Pair(hub, member, hub_and_member, name)
        await pair.join()
        await pair.empower()
        try:
            yield pair
        finally:
            await pair.tidy()
            await pair.disempower()
            for client in (hub, member):
                await clear(client, name)


def kubeconfig_with_files(text: str) -> tuple[str, dict[str, str]]:
    """Return a kubeconfig that names its certificate and key as files, and these files, as OCM's agents write them."""
    document = yaml.safe_load(text)
    files = {}
    for section, field, names in (
        ("users", "user", {"client-certificate": "tls.crt", "client-key": "tls.key"}),
        ("clusters", "cluster", {"certificate-authority": "ca.crt"}),
    ):
        entry = document[section][0][field]
        for name, file in names.items():
            if f"{name}-data" in entry:
                files[file] = base64.b64decode(entry.pop(f"{name}-data")).decode()
            else:
                files[file] = Path(entry[name]).read_text()
            entry[name] = file
    return json.dumps(document), files
