"""Agents process a pod of any size quickly on their event loop; rows are in `tests/large_objects.py`."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from agent.api.kinds import PODS
from agent.kube.store import Object
from agent.model.delegatepod import chaperon, delegate
from agent.model.errors import InvalidPod
from agent.model.livechanges import changes, chaperon_patch, delegate_patch
from agent.model.manifest import source_pod
from agent.model.proxypod import proxy_pod
from agent.model.references import own_and_added, references
from agent.model.requests import requests
from agent.scheduler.cache.pod_info import PodInfos
from tests import large_objects
from tests.costs import pace
from tests.stalls import STALL_SECONDS

Raw = dict[str, Any]


@contextlib.contextmanager
def soon(what: str) -> Iterator[None]:
    """Check that code does not block the event loop for too long, in CPU time scaled by the pace of the core."""
    before = pace()
    began = time.thread_time()
    yield
    seconds = time.thread_time() - began
    assert seconds < STALL_SECONDS * max(1.0, before, pace()), f"{what} takes {seconds:.2f} s"


@pytest.mark.parametrize("field", large_objects.PODS)
def test_a_pod_of_the_largest_size_is_made_a_delegate_soon(field: str) -> None:
    with soon("the webhook"):
        proxy = admitted(large_objects.PODS[field]("default", "large"))
    proxy["metadata"] |= {"uid": "u", "resourceVersion": "1", "generation": 1}
    raw = msgspec.json.encode(proxy)
    with soon("reading it"):
        obj = Object(PODS, raw)
    for what, step in steps(obj):
        with soon(what):
            step()
    with soon("its chaperon"):
        try:
            made = chaperon(proxy, cluster_name="c", cluster_uid="k")
        except InvalidPod:
            return
        assert len(msgspec.json.encode(made)) < 4 << 20
    made["metadata"]["uid"] = "cu"
    follow_changes(proxy, made)


def admitted(pod: Raw) -> Raw:
    """Return the proxy pod. Skips the rest of the test if the webhook refuses the pod."""
    try:
        return proxy_pod(pod, ["multicluster.admiralty.io/default-c2"])
    except InvalidPod as error:
        pytest.skip(f"{error}"[:200])


def steps(obj: Object) -> Iterator[tuple[str, Callable[[], object]]]:
    def place() -> None:
        with contextlib.suppress(InvalidPod):
            PodInfos().of(obj)

    yield "its demand", place
    yield "what it names", lambda: references(obj.raw)
    yield "what was added", lambda: own_and_added(obj.raw)
    yield "its requests", lambda: requests(obj.decode()["spec"])


def follow_changes(proxy: Raw, made: Raw) -> None:
    """Add as many tolerations to a live pod as its annotations can hold, and update the delegate."""
    pod = delegate(made)
    more = large_objects.many(lambda index: {"key": f"more{index}", "operator": "Exists"}, 200_000)
    proxy["spec"]["tolerations"] = [*proxy["spec"].get("tolerations", ()), *more]
    with soon("its changes"):
        changed = changes(proxy, source_pod(proxy), made)
        chaperon_patch(changed, made)
    pod["spec"] = {**pod["spec"], "tolerations": [*pod["spec"].get("tolerations", ()), *more[1:]]}
    with soon("the delegate's changes"):
        assert len(delegate_patch(changed, pod)["spec"]["tolerations"]) >= len(more)
