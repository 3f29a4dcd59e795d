"""Kinds of networks whose controllers do not run here, for as long as a test takes."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from agent.api.kinds import CRDS, Kind
from agent.kube.client import Client
from agent.kube.errors import AlreadyExists, NotFound
from tests.waiting import until

ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(kind: Kind, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    """A CRD of one version with a status; a schema that is not given takes any spec."""
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
    """The kinds, served by all these clusters."""
    try:
        for client in clients:
            for kind, schema in kinds:
                await _install(client, definition(kind, schema))
        for client in clients:
            for kind, _ in kinds:
                await until(lambda client=client, kind=kind: _served(client, kind))  # type: ignore[misc]
        yield
    finally:
        for client in clients:
            for kind, _ in kinds:
                with contextlib.suppress(NotFound):
                    await client.delete(CRDS, str(kind))


async def _install(client: Client, wanted: dict[str, Any]) -> None:
    """That of the test before may still be going, with its objects."""

    async def probe() -> dict[str, Any]:
        return await client.create(CRDS, wanted)

    await until(probe, forgiven=AlreadyExists)


async def _served(client: Client, kind: Kind) -> bool:
    try:
        await client.list(kind)
    except NotFound:
        return False
    return True
