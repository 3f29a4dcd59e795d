"""Shell completion for names of targets and other objects."""

import asyncio
from collections.abc import Iterable

import typer

from agent.api.kinds import Kind
from agent.cli.fleet.source_queries import read_targets, source
from agent.cli.options import Failed
from agent.kube.errors import KubeError

SECONDS = 2.0
"""Timeout of a completion."""


def target_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return names of targets that begin like this; none if the cluster cannot be reached."""
    return offered(context, incomplete, None)


def offered(context: typer.Context, incomplete: str, kind: Kind | None) -> list[str]:
    """Return names that begin like this: of objects of a kind, or of targets if None."""
    options = {name: str(context.params.get(name) or "") for name in ("kubeconfig", "context", "namespace")}
    try:
        found = asyncio.run(_names(kind, **options))
    except (Failed, KubeError):
        return []
    return sorted({name for name in found if name.startswith(incomplete)})


async def _names(kind: Kind | None, kubeconfig: str, context: str, namespace: str) -> Iterable[str]:
    async with source(kubeconfig, context, namespace, seconds=SECONDS) as found:
        if kind is None:
            return [target.name for target in await read_targets(found.client, found.namespace, [])]
        return [each["metadata"]["name"] for each in await found.client.list(kind, found.namespace)]
