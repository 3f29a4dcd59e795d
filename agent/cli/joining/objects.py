"""Creation and update of objects, with a report of the changes."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from agent.api.kinds import ROLE_BINDINGS, Kind
from agent.cli.joining import manifests
from agent.cli.joining.contexts import Side
from agent.cli.joining.manifests import Raw
from agent.cli.options import Failed
from agent.kube.client import Client
from agent.kube.errors import AlreadyExists, NotFound

T = TypeVar("T")

POLL_SECONDS = 0.5

State = Literal["ready", "joined", "left", "failed"]


@dataclass
class Report:
    """Result for one pair of clusters, also for one that failed."""

    target: str
    """Name of the Target."""
    namespace: str
    """Namespace of the Target; empty for a ClusterTarget."""
    source_cluster: str
    target_cluster: str
    state: State = "failed"
    changes: list[str] = field(default_factory=list)
    token_ends: str = ""
    message: str = ""
    notes: list[str] = field(default_factory=list)


def title(kind: Kind, name: str, namespace: str | None) -> str:
    """Return the title of an object in messages."""
    return f"{kind.name} {namespace + '/' if namespace else ''}{name}"


async def find(client: Client, kind: Kind, name: str, namespace: str | None) -> Raw | None:
    """Read an object, None if it does not exist. Raises KubeError."""
    with contextlib.suppress(NotFound):
        return await client.get(kind, name, namespace)
    return None


async def ensure(side: Side, kind: Kind, wanted: Raw, report: Report) -> Raw:
    """Create an object, or patch its differences from the wanted one. Raises Failed, KubeError."""
    metadata = wanted["metadata"]
    name, namespace = metadata["name"], metadata.get("namespace")
    what = f"{title(kind, name, namespace)} in {side.title}"
    found = await find(side.client, kind, name, namespace)
    if found is None:
        try:
            made = await side.client.create(kind, manifests.without_none(wanted))
        except AlreadyExists:
            # Two contexts of one cluster may form pairs that need the same object.
            found = await side.client.get(kind, name, namespace)
        else:
            report.changes.append(f"{what} created")
            return made
    body = manifests.change(found, wanted)
    if not body:
        return found
    if kind == ROLE_BINDINGS and "roleRef" in body:
        raise Failed(f"{what} binds another role: delete it, and join again")
    changed = await side.client.patch(kind, name, body, namespace)
    report.changes.append(f"{what} updated")
    return changed


async def until(probe: Callable[[], Awaitable[T | None]], seconds: float, failure: Callable[[], str]) -> T:
    """Return the result of a probe once it is true. Raises Failed when that takes longer."""
    deadline = time.monotonic() + seconds
    while not (found := await probe()):
        if time.monotonic() > deadline:
            raise Failed(failure())
        await asyncio.sleep(POLL_SECONDS)
    return found
