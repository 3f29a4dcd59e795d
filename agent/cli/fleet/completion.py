"""What shells offer when somebody types the name of a target."""

import asyncio

import typer

from agent.cli.fleet.source_queries import read_targets, source
from agent.cli.options import Failed
from agent.kube.errors import KubeError

SECONDS = 2.0
"""Longer nobody waits for a completion."""


def target_names(context: typer.Context, incomplete: str) -> list[str]:
    """Names of targets that begin like this; none when the cluster cannot be asked."""
    options = {name: str(context.params.get(name) or "") for name in ("kubeconfig", "context", "namespace")}
    try:
        found = asyncio.run(_names(**options))
    except (Failed, KubeError):
        return []
    return sorted({name for name in found if name.startswith(incomplete)})


async def _names(kubeconfig: str, context: str, namespace: str) -> list[str]:
    async with source(kubeconfig, context, namespace, seconds=SECONDS) as found:
        return [target.name for target in await read_targets(found.client, found.namespace, [])]
