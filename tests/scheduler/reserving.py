"""Scheduler in mode `reserve` between real clusters, with relays that lose selected messages."""

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from agent.api import names
from agent.api.kinds import CHAPERONS, NAMESPACES, PODS, SERVICE_ACCOUNTS
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.client import Client
from agent.kube.config import load
from agent.pods.feedback.controller import Feedback
from agent.runtime.controller import Controller
from agent.scheduler.controller import ProxyScheduler
from hack.lab.sandbox import Cluster, Sandbox
from hack.lab.sandbox.objects import connect
from tests.controllers.proxies import connected, create, elected
from tests.controllers.starting import namespace_known, running
from tests.kube.relay import Relay
from tests.namespaces import end
from tests.scheduler.test_controller import waiting
from tests.waiting import until

Raw = dict[str, Any]


@dataclass(frozen=True)
class Reached:
    """Cluster behind a relay."""

    kubeconfig: Path
    name: str = "test"


@dataclass(frozen=True)
class Stage:
    """Source with running controllers, and its two targets. Relays are `near` for the source, and one per target."""

    deps: Deps
    namespace: str
    client: Client
    far: dict[str, Client]
    near: Relay
    relays: dict[str, Relay]
    targets: dict[str, Target]

    async def pods(self, *named: str, **more: Any) -> list[Raw]:
        """Create proxy pods as the webhook does."""
        return [await self.pod(name, **more) for name in named]

    async def pod(self, name: str, *, cpu: str = "10m", annotations: dict[str, str] | None = None, **spec: Any) -> Raw:
        """Create one proxy pod."""
        manifest = elected(name, self.namespace, **spec)
        manifest["metadata"]["annotations"] |= annotations or {}
        manifest["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
        return await create(self.client, manifest, [*self.targets.values()])

    async def namespace_says(self, annotations: Mapping[str, str | None]) -> None:
        """Annotate the namespace, and wait until the controllers have observed it."""
        await self.client.patch(NAMESPACES, self.namespace, {"metadata": {"annotations": dict(annotations)}})
        await namespace_known(self.deps, self.namespace, annotations)

    async def delete(self, *named: str) -> None:
        """Delete proxy pods."""
        for name in named:
            await self.client.delete(PODS, name, self.namespace)

    async def chaperons(self, *targets: str) -> list[tuple[str, Raw]]:
        """Return all chaperons, with their target."""
        return [
            (target, chaperon)
            for target in targets or self.far
            for chaperon in await self.far[target].list(CHAPERONS, self.namespace)
        ]

    async def proxies(self) -> list[Raw]:
        """Return all proxy pods."""
        return await self.client.list(PODS, self.namespace)

    async def run(self, count: int) -> dict[str, str]:
        """Wait until this many pods run. Return the target of each by name."""

        async def probe() -> dict[str, str]:
            pods = await self.proxies()
            right = len(pods) == count and all(pod["status"].get("phase") == "Running" for pod in pods)
            return {pod["metadata"]["name"]: self._target(pod) for pod in pods} if right else {}

        return await until(probe)

    async def settled(self, count: int) -> dict[str, str]:
        """Wait until this many pods run with one delegate each, without leftovers in any cluster."""
        where = await self.run(count)

        async def probe() -> bool:
            found = await self.chaperons()
            pods = [pod for client in self.far.values() for pod in await client.list(PODS, self.namespace)]
            parents = {chaperon["metadata"]["annotations"][names.ANNOTATION_PARENT_NAME]: at for at, chaperon in found}
            return len(found) == len(pods) == count and parents == where

        await until(probe)
        return where

    async def empty(self) -> None:
        """Wait until all clusters are free of the pods' objects."""

        async def probe() -> bool:
            return not await self.proxies() and not await self.chaperons()

        await until(probe)

    async def waits(self, name: str, word: str) -> str:
        """Return why a pod waits, once the reason contains this word."""
        return await waiting(self.client, self.namespace, name, word)

    async def candidates(self, count: int, *targets: str, reserved: bool = False) -> list[tuple[str, Raw]]:
        """Wait until this many candidates exist without permission; with `reserved`, all of them are reserved."""

        async def probe() -> list[tuple[str, Raw]] | None:
            found = await self.chaperons(*targets)
            notes = [chaperon["metadata"].get("annotations", {}) for _, chaperon in found]
            open_ = [each for each in notes if names.ANNOTATION_IS_ALLOWED not in each]
            right = len(open_) == count and (
                not reserved or all(names.ANNOTATION_IS_RESERVED in each for each in open_)
            )
            return [*found, ("", {})] if right else None

        return (await until(probe) or [])[:-1]

    def _target(self, pod: Raw) -> str:
        node = pod["spec"].get("nodeName", "")
        return next((name for name, target in self.targets.items() if target.node_name == node), "")


Open = Callable[..., contextlib.AbstractAsyncContextManager[Stage]]
"""Factory for the stage of a test; takes settings."""


@contextlib.asynccontextmanager
async def stage(
    cluster: Cluster,
    client: Client,
    namespace: str,
    sandbox: Sandbox,
    directory: Path,
    *,
    missing: Sequence[str] = (),
    controllers: Sequence[Callable[[Deps], Controller[Any]]] = (),
    **settings: Any,
) -> AsyncIterator[Stage]:
    """Run the controllers, with additional ones if given. Targets in `missing` lack the namespace."""
    async with contextlib.AsyncExitStack() as stack:
        far = {}
        for each in sandbox.clusters:
            far[each.name] = connect(each.kubeconfig, name=each.name)
            await stack.enter_async_context(far[each.name].session)
            if each.name not in missing:
                await add_namespace(far[each.name], namespace)
                stack.push_async_callback(end, far[each.name], namespace)
        near = await stack.enter_async_context(Relay.started(load(str(cluster.kubeconfig))))
        relays = {
            each.name: await stack.enter_async_context(Relay.started(load(str(each.kubeconfig))))
            for each in sandbox.clusters
        }
        reached = Reached(_kubeconfig(directory, near.connection.server))
        settings = {"scheduling": "reserve", "dwell": 2.0, "request_timeout": 5.0, **settings}
        deps = await stack.enter_async_context(running(reached, *controllers, Feedback, ProxyScheduler, **settings))
        links = {name: relay.connection for name, relay in relays.items()}
        targets = await stack.enter_async_context(connected(deps, client, namespace, **links))
        yield Stage(deps, namespace, client, far, near, relays, targets)


async def add_namespace(client: Client, namespace: str) -> None:
    """Create a namespace that accepts pods."""
    await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    await until(lambda: client.get(SERVICE_ACCOUNTS, "default", namespace))


def _kubeconfig(directory: Path, server: str) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": {"server": server}}],
        "users": [{"name": "here", "user": {}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "here"}}],
        "current-context": "here",
    }
    path = directory / "near.kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return path


def first_of_each(method: str, ending: str, seen: set[str]) -> Any:
    """Select the first request of each path with this method and this suffix or part."""

    def choice(asked: str, path: str) -> bool:
        if asked != method or ending not in path or path in seen:
            return False
        seen.add(path)
        return True

    return choice
