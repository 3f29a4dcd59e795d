"""Proxy pods that Services select: incremental updates yield the same as a full lookup."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.api.kinds import PODS
from agent.kube.client import Client, encode
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model.service import Selector
from agent.services.reroute import selections
from agent.services.reroute.selections import Selections

LABELS = st.sampled_from([{}, {"a": "x"}, {"a": "y"}, {"b": "x"}, {"a": "x", "b": "x"}, {"a": "y", "b": "y"}])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pod"), st.integers(0, 3), st.none() | LABELS),
        st.tuples(st.just("service"), st.integers(0, 2), st.none() | LABELS.filter(bool)),
    ),
    max_size=30,
)


class Proxies(Informer):
    """A store that the test fills."""

    def __init__(self) -> None:
        super().__init__(cast("Client", None), PODS)
        self._count = 0

    def show(self, name: str, labels: dict[str, str] | None) -> None:
        """Set the labels of a pod; None deletes it."""
        self._count += 1
        metadata: dict[str, Any] = {"name": name, "namespace": "ns", "resourceVersion": str(self._count)}
        if labels is None:
            self._contents.remove(("ns", name), self._count)
        else:
            self._contents.put(Object(PODS, encode({"metadata": {**metadata, "labels": labels}})), self._count)


@given(STEPS)
def test_what_a_service_selects_is_always_known(steps: list[tuple[str, int, dict[str, str] | None]]) -> None:
    proxies, told = Proxies(), set[Key]()
    known = Selections(proxies, told.add)
    services: dict[Key, dict[str, str]] = {}
    for what, number, labels in steps:
        before = {key: known.any(key) for key in services}
        told.clear()
        if what == "pod":
            proxies.show(f"p{number}", labels)
        else:
            key = ("ns", f"s{number}")
            known.put(key, labels)
            services.pop(key, None)
            if labels:
                services[key] = labels
        for key, selector in services.items():
            want = any(selector.items() <= pod.labels.items() for pod in proxies.store)
            assert known.any(key) == want
            if what == "pod" and before[key] != want:
                assert key in told


def test_a_pod_that_goes_is_remembered_until_it_is_asked_for() -> None:
    proxies = Proxies()
    known = Selections(proxies, lambda key: None)
    known.put(("ns", "web"), {"a": "x"})
    proxies.show("p1", {"a": "x"})
    proxies.show("p2", {"a": "x"})
    assert not known.lost(("ns", "web"))
    proxies.show("p1", None)
    assert known.any(("ns", "web"))
    assert known.lost(("ns", "web"))
    assert not known.lost(("ns", "web"))


def test_a_pod_is_compared_with_services_that_share_a_label_only(monkeypatch: pytest.MonkeyPatch) -> None:
    proxies, compared = Proxies(), list[Selector]()
    found = Selections(proxies, lambda key: None)
    for number in range(1000):
        found.put(("ns", f"s{number}"), {"app": f"s{number}"})
    selects = selections._selects

    def counted(selector: Selector, pod: Object) -> bool:
        compared.append(selector)
        return selects(selector, pod)

    monkeypatch.setattr(selections, "_selects", counted)
    proxies.show("p1", {"app": "s7", "tier": "front"})
    assert compared == [{"app": "s7"}]
    assert found.any(("ns", "s7"))
