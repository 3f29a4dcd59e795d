"""How many ServiceLinks say what of themselves, as metrics tell it."""

from typing import Any

from agent.base.metrics import REGISTRY
from agent.clusters.servicelinks import LinkCounts


def link(ready: str = "") -> dict[str, Any]:
    return {"status": {"conditions": [{"type": "Ready", "status": ready}]}} if ready else {}


def told() -> dict[str, float | None]:
    found = {each: REGISTRY.get_sample_value("flotilla_service_links", {"ready": each}) for each in STATUSES}
    return {each: count for each, count in found.items() if count is not None}


STATUSES = ("True", "False", "Unknown")


def test_each_link_counts_once_as_what_it_says_last() -> None:
    counts = LinkCounts()
    counts.clear()
    assert told() == {}
    for name in ("web", "db", "api"):
        counts.update(("shop", name), link())
    assert told() == {"Unknown": 3}
    counts.update(("shop", "web"), link("True"))
    counts.update(("shop", "web"), link("True"))
    counts.update(("shop", "db"), link("False"))
    assert told() == {"True": 1, "False": 1, "Unknown": 1}
    counts.update(("shop", "db"), None)
    counts.update(("shop", "db"), None)
    assert told() == {"True": 1, "False": 0, "Unknown": 1}
    counts.clear()
    assert told() == {}
