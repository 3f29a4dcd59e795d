"""Field owners for server-side apply: fields that only Flotilla writes have none; a user keeps a Service's selector.

To server-side apply a selector is one field, owned by its last writer. After a write by Flotilla, the user's next
`kubectl apply --server-side` would be refused as a conflict. So the ownership is returned to the user: applying the
original replaces the rewritten selector, which is then rewritten again.
"""

from typing import Any

import msgspec

from agent.api.kinds import SERVICES
from agent.kube.client import Client
from agent.kube.store import Object

Raw = dict[str, Any]

_SPEC, _SELECTOR = "f:spec", "f:selector"


def untracked(*, applied: bool) -> Raw:
    """Return the patch metadata that ends the tracking of field owners; empty for applied objects.

    Tracking costs the API server 0.6 ms of each later write of a pod, and over a quarter of a PodChaperon's. A later
    apply starts tracking again (structured-merge-diff's `before-first-apply`).
    """
    return {} if applied else {"managedFields": [{}]}


def given_back(fields: list[Raw]) -> list[Raw] | None:
    """Return managed fields in which users who apply the Service own its selector again; None if its spec is not
    applied."""
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
    """Return the selector's ownership to the user if necessary; return the Service after that."""
    metadata = msgspec.json.decode(raw, type=Raw)["metadata"]
    fields = given_back(metadata.get("managedFields") or [])
    if fields is None:
        return raw
    body = {"metadata": {"resourceVersion": metadata["resourceVersion"], "managedFields": fields}}
    return await client.patch_raw(SERVICES, service.name, body, service.namespace)
