"""End of test namespaces: deleted, or emptied and kept until their cluster ends, which costs a ninth.

Kubernetes sends eighty requests to delete one: two for each served kind.
"""

import contextlib
import functools
import json
import re
from collections import defaultdict
from typing import Any

from agent.api.kinds import CONFIGMAPS, EVENTS, NAMESPACES, PODS, SERVICE_ACCOUNTS
from agent.kube.client import Client
from agent.kube.errors import Conflict, KubeError, NotFound
from agent.kube.session import Session

_COLLECTION = re.compile(r"/(?:api|apis/[^/]+)/[^/]+/namespaces/([^/]+)/([^/]+)")
_WRITES = {"POST", "PUT", "PATCH"}
_AT_FIRST = {CONFIGMAPS.plural: "kube-root-ca.crt", SERVICE_ACCOUNTS.plural: "default"}
"""Objects that Kubernetes creates in every namespace."""
_OWN_LABEL = "kubernetes.io/metadata.name"
_written: dict[str, set[str]] = defaultdict(set)
"""Collections that this process has written to, as paths, by namespace."""


def _noted(request: Any) -> Any:
    @functools.wraps(request)
    async def noting(session: Session, method: str, path: str, **more: Any) -> bytes:
        found = _COLLECTION.match(path) if method in _WRITES else None
        if found and found[2] != EVENTS.plural:
            _written[found[1]].add(found[0])
        body: bytes = await request(session, method, path, **more)
        return body

    return noting


Session.request = _noted(Session.request)  # type: ignore[method-assign]


async def end(client: Client, name: str) -> None:
    """Delete a namespace with all of its objects, unless it has been deleted before."""
    with contextlib.suppress(NotFound, Conflict):
        await client.delete(NAMESPACES, name)


async def clear(client: Client, name: str) -> None:
    """Empty a namespace that only this process has written to, and keep it; delete it if that is impossible."""
    try:
        metadata = (await client.get(NAMESPACES, name))["metadata"]
        if "deletionTimestamp" in metadata:
            return
        for collection in sorted(_written.get(name, ())):
            await _empty(client, collection)
        await _strip(client, metadata)
    except NotFound:
        return
    except KubeError:
        await end(client, name)


async def _empty(client: Client, collection: str) -> None:
    """Delete the objects of a collection, including their finalizers."""
    plural = collection.rpartition("/")[2]
    kept = _AT_FIRST.get(plural)
    options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
    if plural == PODS.plural:
        options["gracePeriodSeconds"] = 0
    try:
        answer = await client.session.request(
            "DELETE",
            collection,
            params={"fieldSelector": f"metadata.name!={kept}"} if kept else None,
            body=json.dumps(options).encode(),
        )
    except NotFound:
        return  # a kind that this cluster does not serve, or no longer serves
    for each in json.loads(answer).get("items", ()):
        if each["metadata"].get("finalizers"):
            with contextlib.suppress(NotFound):
                await client.session.request(
                    "PATCH",
                    f"{collection}/{each['metadata']['name']}",
                    body=b'{"metadata":{"finalizers":null}}',
                    content_type="application/merge-patch+json",
                )


async def _strip(client: Client, metadata: dict[str, Any]) -> None:
    """Remove labels, annotations and finalizers of tests from a namespace, since later controllers watch all
    namespaces."""
    change: dict[str, Any] = {key: None for key in ("annotations", "finalizers") if metadata.get(key)}
    if labels := {label: None for label in metadata["labels"] if label != _OWN_LABEL}:
        change["labels"] = labels
    if change:
        await client.patch(NAMESPACES, metadata["name"], {"metadata": change})
