"""Removal of our finalizers and labels from objects that stay: part of `flotilla uninstall`."""

import contextlib
from collections.abc import Callable
from typing import Any

from agent.api.kinds import Kind
from agent.kube.client import Client
from agent.kube.errors import Conflict, NotFound
from agent.model.podstate import is_our_finalizer

Raw = dict[str, Any]

_TRIES = 5


async def release_all(
    client: Client,
    kind: Kind,
    *,
    labels: str = "",
    fields: str = "",
    label: str = "",
    ours: Callable[[str], bool] = is_our_finalizer,
) -> bool:
    """Remove our finalizers, and a label, from all objects of a kind.

    Returns False if another writer keeps changing them.
    """
    for _ in range(_TRIES):
        try:
            objects = await client.list(kind, labels=labels, fields=fields)
        except NotFound:
            # The CRD does not exist.
            return True
        bodies = [(each["metadata"], body) for each in objects if (body := _released(each["metadata"], label, ours))]
        if not bodies:
            return True
        for metadata, body in bodies:
            with contextlib.suppress(NotFound, Conflict):
                await client.patch(kind, metadata["name"], {"metadata": body}, metadata.get("namespace"))
    return False


def _released(metadata: Raw, label: str, ours: Callable[[str], bool]) -> Raw:
    """Return the merge patch of an object's metadata; {} if it has no finalizer or label of ours."""
    finalizers = metadata.get("finalizers") or []
    rest = [name for name in finalizers if not ours(name)]
    body: Raw = {"finalizers": rest or None} if rest != finalizers else {}
    if label and label in (metadata.get("labels") or {}):
        body["labels"] = {label: None}
    return body | {"resourceVersion": metadata["resourceVersion"]} if body else {}
