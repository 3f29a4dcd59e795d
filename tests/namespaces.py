"""How namespaces of tests end."""

import contextlib

from agent.api.kinds import NAMESPACES
from agent.kube.client import Client
from agent.kube.errors import Conflict, NotFound


async def end(client: Client, name: str) -> None:
    """Delete a namespace with all that is in it, unless somebody has deleted it before."""
    with contextlib.suppress(NotFound, Conflict):
        await client.delete(NAMESPACES, name)
