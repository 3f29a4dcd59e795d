"""Number of write requests to API servers, including refused ones and ones without a change."""

import asyncio
import re
import time
from collections import Counter

from tests.e2e.fleet import Fleet

RESOURCES = ("pods", "podchaperons", "events", "clustersummaries", "targets", "clustertargets")
_METRIC = re.compile(rb"^apiserver_request_total\{(?P<labels>.*)\} (?P<count>\S+)$", re.MULTILINE)
_LABEL = re.compile(rb'(\w+)="([^"]*)"')
_QUIET_SECONDS = 6.0
_WRITES = (b"POST", b"PUT", b"PATCH", b"APPLY", b"DELETE", b"DELETECOLLECTION")


async def writes(fleet: Fleet) -> Counter[str]:
    """Return the writes to all API servers of a fleet so far, as `CLUSTER VERB RESOURCE`."""
    found: Counter[str] = Counter()
    for name, client in fleet.clients.items():
        text = await client.session.request("GET", "/metrics")
        for match in _METRIC.finditer(text):
            labels = dict(_LABEL.findall(match["labels"]))
            resource = labels.get(b"resource", b"").decode()
            if resource in RESOURCES and labels[b"verb"] in _WRITES:
                found[f"{name} {labels[b'verb'].decode()} {resource}"] += int(float(match["count"]))
    return found


async def while_idle(fleet: Fleet, seconds: float, *, settle: float = 40.0) -> Counter[str]:
    """Return the writes within some idle seconds. Earlier work may still be in progress, such as events: it has
    `settle` seconds to finish. Kubernetes' controllers reconcile a new node, and write an event about it, up to
    five seconds after its creation."""
    before = await writes(fleet)
    assert before, "the API servers count nothing under these names"
    deadline = time.monotonic() + settle
    while time.monotonic() < deadline:
        await asyncio.sleep(_QUIET_SECONDS)
        now = await writes(fleet)
        if now == before:
            break
        before = now
    await asyncio.sleep(seconds)
    return await writes(fleet) - before
