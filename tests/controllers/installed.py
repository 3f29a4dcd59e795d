"""Installs CRDs of network drivers whose controllers do not run, for the duration of a test."""

import contextlib
import functools
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest_asyncio

from agent.api.kinds import CRDS, Kind
from agent.kube.client import Client
from agent.kube.errors import NotFound
from hack.lab.sandbox import Sandbox
from hack.lab.sandbox.objects import connect
from tests.waiting import gone, until

ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(kind: Kind, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a CRD of one version with a status; without a schema it accepts any spec."""
    properties = {"spec": schema or ANYTHING, "status": ANYTHING}
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }
    words = {"kind": kind.name, "plural": kind.plural, "singular": kind.name.lower(), "listKind": f"{kind.name}List"}
    approved = {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/mcs-api"}
    return {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.name,
        "metadata": {"name": str(kind), "annotations": approved},
        "spec": {"group": kind.group, "scope": "Namespaced", "names": words, "versions": [version]},
    }


@contextlib.asynccontextmanager
async def installed(
    clients: Sequence[Client], kinds: Sequence[tuple[Kind, dict[str, Any] | None]]
) -> AsyncIterator[None]:
    """Install the CRDs in all these clusters while the context lasts."""
    try:
        for client in clients:
            for kind, schema in kinds:
                await client.create(CRDS, definition(kind, schema))
        for client in clients:
            for kind, _ in kinds:
                await until(lambda client=client, kind=kind: is_served(client, kind))  # type: ignore[misc]
        yield
    finally:
        await uninstalled(clients, [str(kind) for kind, _ in kinds])


def served_by_both(kinds: Sequence[tuple[Kind, dict[str, Any] | None]]) -> object:
    """Return a fixture that installs the CRDs in source and target for the tests of a file."""

    @pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
    async def served(two_clusters: Sandbox) -> AsyncIterator[None]:
        here, there = (connect(two_clusters[name].kubeconfig, name=name) for name in ("here", "there"))
        async with here.session, there.session, installed((here, there), kinds):
            yield

    return served


async def uninstalled(clients: Sequence[Client], names: Sequence[str]) -> None:
    """Delete CRDs with all their objects, so that another test can install them again."""
    for client in clients:
        for name in names:
            with contextlib.suppress(NotFound):
                await client.delete(CRDS, name)
    for client in clients:
        for name in names:
            await gone(functools.partial(client.get, CRDS, name))


async def is_served(client: Client, kind: Kind) -> bool:
    """Return whether a cluster serves a kind."""
    try:
        await client.list(kind)
    except NotFound:
        return False
    return True
