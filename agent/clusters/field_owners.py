"""Field owners for server-side apply: fields that only we write have none; a Service's selector stays its user's.

A selector is one field to server-side apply, and whoever writes it owns it: once we have, its user's next
`kubectl apply --server-side` would be refused as a conflict. So the ownership goes back to them, and applying the
original again works: it replaces our selector by theirs, which is then rewritten again.
"""

from typing import Any

import msgspec

from agent.api.kinds import SERVICES
from agent.kube.client import Client
from agent.kube.store import Object

Raw = dict[str, Any]

_SPEC, _SELECTOR = "f:spec", "f:selector"


def untracked(*, applied: bool) -> Raw:
    """Part of a patch's metadata that ends the tracking of field owners; nothing where somebody applies the object.

    Tracking them costs the API server 0.6 ms of each later write of a pod, and a good quarter of a write of a
    PodChaperon. An apply that comes later begins it anew (structured-merge-diff's `before-first-apply`).
    """
    return {} if applied else {"managedFields": [{}]}


def given_back(fields: list[Raw]) -> list[Raw] | None:
    """Managed fields in which those who apply the Service own its selector again; None if nobody applies its spec."""
    users = [entry for entry in fields if entry.get("operation") == "Apply" and _SPEC in entry.get("fieldsV1", {})]
    if not users or any(_SELECTOR in entry["fieldsV1"][_SPEC] for entry in users):
        return None
    return [_with_selector(entry) if entry in users else _without_selector(entry) for entry in fields]


def _with_selector(entry: Raw) -> Raw:
    fields = entry["fieldsV1"]
    return {**entry, "fieldsV1": {**fields, _SPEC: {**fields[_SPEC], _SELECTOR: {}}}}


def _without_selector(entry: Raw) -> Raw:
    fields = entry.get("fieldsV1", {})
    if _SELECTOR not in fields.get(_SPEC, {}):
        return entry
    spec = {key: value for key, value in fields[_SPEC].items() if key != _SELECTOR}
    rest = {key: value for key, value in fields.items() if key != _SPEC} | ({_SPEC: spec} if spec else {})
    return {**entry, "fieldsV1": rest}


async def keep_owners(client: Client, service: Object, raw: bytes) -> bytes:
    """Give the selector's ownership back, if need be. Returns the Service as it is then."""
    metadata = msgspec.json.decode(raw, type=Raw)["metadata"]
    fields = given_back(metadata.get("managedFields") or [])
    if fields is None:
        return raw
    body = {"metadata": {"resourceVersion": metadata["resourceVersion"], "managedFields": fields}}
    return await client.patch_raw(SERVICES, service.name, body, service.namespace)
