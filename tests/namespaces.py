"""Namespaces of tests end at a part of what they cost otherwise.

Kubernetes asks for each kind that there is whether something of it is left in a namespace, twice: a tenth of a second
of CPU, also where nothing is. Tests and the rooms that they run are one process, which knows what it has written.
"""

import contextlib
import functools
import re
from collections import defaultdict
from typing import Any

import msgspec

from agent.api.kinds import CONFIGMAPS, EVENTS, NAMESPACES, PODS, SECRETS, SERVICE_ACCOUNTS, SERVICES
from agent.kube.client import Client, encode
from agent.kube.errors import Conflict, KubeError, NotFound
from agent.kube.session import Session

_BY_OTHERS = (PODS, EVENTS, CONFIGMAPS, SECRETS, SERVICE_ACCOUNTS, SERVICES)
"""Kinds of which others make something: Kubernetes, agents in processes of their own."""
_IN_A_NAMESPACE = re.compile(r"/apis?/.+/namespaces/([^/]+)/[^/]+")
_written: defaultdict[str, set[str]] = defaultdict(set)
"""By namespace: the paths of kinds."""


def note_writes() -> None:
    """From now on remember what kinds this process writes in which namespace."""
    request = Session.request

    @functools.wraps(request)
    async def noted(self: Session, method: str, path: str, **more: Any) -> bytes:
        place = _IN_A_NAMESPACE.match(path) if method in ("POST", "PUT", "PATCH") else None
        if place and not place[0].endswith("reviews"):
            _written[place[1]].add(place[0])
        return await request(self, method, path, **more)

    Session.request = noted  # type: ignore[method-assign]


async def end(client: Client, name: str) -> None:
    """Delete a namespace with all that is in it at once, unless somebody has deleted it before."""
    try:
        going = msgspec.json.decode(await client.delete(NAMESPACES, name))
    except (NotFound, Conflict):
        return
    # Nothing can be created there any more.
    paths = {kind.path(name) for kind in _BY_OTHERS} | _written[name]
    with contextlib.suppress(KubeError):
        # What fails is left to Kubernetes.
        for path in paths:
            await _clear(client, path)
        await client.update(NAMESPACES, {**going, "spec": {"finalizers": []}}, sub="finalize")


async def _clear(client: Client, path: str) -> None:
    with contextlib.suppress(NotFound):
        await client.session.request("DELETE", path, body=encode({"gracePeriodSeconds": 0}))
