"""How many ServiceLinks say what of themselves, as metrics tell it."""

from typing import Any

from agent.base.metrics import REGISTRY
from agent.clusters.servicelinks import Tally


def link(ready: str = "") -> dict[str, Any]:
    return {"status": {"conditions": [{"type": "Ready", "status": ready}]}} if ready else {}


def told() -> dict[str, float | None]:
    found = {each: REGISTRY.get_sample_value("flotilla_service_links", {"ready": each}) for each in STATUSES}
    return {each: count for each, count in found.items() if count is not None}


STATUSES = ("True", "False", "Unknown")


def test_each_link_counts_once_as_what_it_says_last() -> None:
    tally = Tally()
    tally.clear()
    assert told() == {}
    for name in ("web", "db", "api"):
        tally.note(("shop", name), link())
    assert told() == {"Unknown": 3}
    tally.note(("shop", "web"), link("True"))
    tally.note(("shop", "web"), link("True"))
    tally.note(("shop", "db"), link("False"))
    assert told() == {"True": 1, "False": 1, "Unknown": 1}
    tally.note(("shop", "db"), None)
    tally.note(("shop", "db"), None)
    assert told() == {"True": 1, "False": 0, "Unknown": 1}
    tally.clear()
    assert told() == {}
