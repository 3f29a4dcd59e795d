"""How many writes API servers have been asked for: refused ones and ones that change nothing count, too."""

import asyncio
import re
from collections import Counter

from tests.e2e.fleet import Fleet

RESOURCES = ("pods", "podchaperons", "events", "clustersummaries", "targets", "clustertargets")
_METRIC = re.compile(rb"^apiserver_request_total\{(?P<labels>.*)\} (?P<count>\S+)$", re.MULTILINE)
_LABEL = re.compile(rb'(\w+)="([^"]*)"')
_WRITES = (b"POST", b"PUT", b"PATCH", b"APPLY", b"DELETE", b"DELETECOLLECTION")


async def writes(fleet: Fleet) -> Counter[str]:
    """Writes to all API servers of a fleet so far, as `CLUSTER VERB RESOURCE`."""
    found: Counter[str] = Counter()
    for name, client in fleet.clients.items():
        text = await client.session.request("GET", "/metrics")
        for match in _METRIC.finditer(text):
            labels = dict(_LABEL.findall(match["labels"]))
            resource = labels.get(b"resource", b"").decode()
            if resource in RESOURCES and labels[b"verb"] in _WRITES:
                found[f"{name} {labels[b'verb'].decode()} {resource}"] += int(float(match["count"]))
    return found


async def while_idle(fleet: Fleet, seconds: float, *, windows: int = 5) -> Counter[str]:
    """Writes within some seconds in which nobody does anything; who writes all the time does so in every window.

    What was done before may still be under way, and a machine that is busy with something else makes a target slow
    for a moment, which its source notes: so these are the writes of the last window, or of the first without any.
    """
    found: Counter[str] = Counter()
    for _ in range(windows):
        before = await writes(fleet)
        assert before, "the API servers count nothing under these names"
        await asyncio.sleep(seconds)
        found = await writes(fleet) - before
        if not found:
            break
    return found
