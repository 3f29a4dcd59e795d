"""Services that select a pod: a lookup for each pod decodes each version of a Service once."""

import json
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import SERVICES
from agent.clusters.cluster import Cluster
from agent.clusters.stores.selecting_services import SelectingServices
from agent.kube.config import Connection
from agent.kube.store import Object

WEB = {"app": "web"}


class Services:
    """Services, as a watch delivers them."""

    def __init__(self) -> None:
        self._cluster = Cluster(Connection("http://127.0.0.1:1"), "local")
        self.selecting = SelectingServices(self._cluster)
        self._version = 0

    async def close(self) -> None:
        await self._cluster.close()

    def put(self, name: str, spec: dict[str, Any], **annotations: str) -> None:
        self._version += 1
        metadata = {"name": name, "namespace": "team", "uid": name, "resourceVersion": str(self._version)}
        raw = json.dumps({"metadata": {**metadata, "annotations": annotations}, "spec": spec}).encode()
        self.selecting.informer._contents.put(Object(SERVICES, raw), self._version)

    def of(self, **labels: str) -> list[str]:
        return [each.name for each in self.selecting.of("team", labels)]


async def test_a_service_is_decoded_once_for_each_version(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []
    decode = Object.decode
    monkeypatch.setattr(Object, "decode", lambda obj: decoded.append(obj.name) or decode(obj))
    services = Services()
    for number in range(20):
        services.put(f"s{number}", {"selector": {"app": f"{number}"}})
    for number in range(20):
        assert services.of(app=f"{number}") == [f"s{number}"]
    assert len(decoded) == 20
    services.put("s1", {"selector": {"app": "2"}})
    assert sorted(services.of(app="2")) == ["s1", "s2"]
    assert len(decoded) == 21
    services.selecting.informer._contents.remove(("team", "s1"), 100)
    assert services.of(app="2") == ["s2"]
    await services.close()


async def test_those_without_a_selector_or_one_that_cannot_be_read_select_nothing() -> None:
    services = Services()
    services.put("external", {"type": "ExternalName", "selector": WEB})
    services.put("plain", {})
    services.put("nonsense", {"selector": WEB}, **{names.ANNOTATION_ORIGINAL_SELECTOR: "["})
    services.put("web", {"selector": WEB})
    assert services.of(app="web") == ["web"]
    assert services.of() == []
    await services.close()


async def test_a_service_that_a_list_has_changed_selects_by_its_new_selector_at_once() -> None:
    services = Services()
    services.put("web", {"selector": WEB})
    assert services.of(app="web") == ["web"]
    with services.selecting.informer._subscribers:
        services.put("web", {"selector": {"app": "db"}})
    assert services.of(app="db") == ["web"]
    assert services.of(app="web") == []
    await services.close()
