"""The ServiceLinks of a Service: their combined request, and their number in metrics."""

import json
from typing import Any

import pytest

from agent.api.kinds import SERVICE_LINKS, SERVICES
from agent.base.metrics import REGISTRY
from agent.clusters.cluster import Cluster
from agent.clusters.stores.service_links import _LINKS, LinkCounts, ServiceLinks
from agent.kube.config import Connection
from agent.kube.store import Object


def link(ready: str = "") -> dict[str, Any]:
    return {"status": {"conditions": [{"type": "Ready", "status": ready}]}} if ready else {}


def told() -> dict[str, float | None]:
    found = {each: REGISTRY.get_sample_value("flotilla_service_links", {"ready": each}) for each in STATUSES}
    return {each: count for each, count in found.items() if count is not None}


STATUSES = ("True", "False", "Unknown")


def test_each_link_counts_once_as_what_it_says_last() -> None:
    counts = LinkCounts()
    _LINKS.clear()
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


async def test_a_link_is_decoded_once_for_each_version_however_many_links_a_service_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoded: list[str] = []
    decode = Object.decode

    def counted(obj: Object) -> dict[str, Any]:
        decoded.append(obj.name)
        return decode(obj)

    monkeypatch.setattr(Object, "decode", counted)
    cluster = Cluster(Connection("http://127.0.0.1:1"), "local")
    links = ServiceLinks(cluster, 60.0, wanted=True)
    metadata = {"namespace": "shop", "resourceVersion": "1"}
    service = Object(SERVICES, json.dumps({"metadata": {**metadata, "name": "web", "uid": "web"}}).encode())

    def made(name: str, port: int) -> Object:
        raw = {"metadata": {**metadata, "name": name, "uid": name}, "spec": {"service": "web", "ports": [port]}}
        return Object(SERVICE_LINKS, json.dumps(raw).encode())

    known = [made(f"link{number:02}", number) for number in range(1, 41)]
    for each in known:
        links._changed(None, each)
        assert links.rule(service).wishes[-1].ports == {int(each.name[-2:])}
    assert len(decoded) == len(known)
    links._changed(known[0], made(known[0].name, 80))
    assert links.rule(service).wishes[0].ports == {80}
    links._changed(known[1], None)
    assert len(links.rule(service).wishes) == len(known) - 1
    await cluster.close()
