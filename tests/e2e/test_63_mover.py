"""Promise 63: pods leave a target after one annotation; meanwhile a Deployment never has fewer pods than it
wants."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from agent.api.conditions import is_true
from agent.api.kinds import EVENTS, NAMESPACES, NODES, PODS, RESOURCE_QUOTAS, SERVICES, TARGETS, Kind
from agent.api.names import LABEL_SERVING, SHORT_PREFIX, moves, virtual_node
from agent.kube.errors import AlreadyExists
from agent.kube.informer import Informer
from agent.kube.store import Object
from tests.e2e import manifests, shared
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import DEPLOYMENTS, JOBS, REPLICASETS, STATEFULSETS
from tests.e2e.test_12_drain import BUDGETS
from tests.policies import refusing
from tests.waiting import until

Raw = dict[str, Any]

REPLICAS = 4
SURGE = 1
LEFT_OVER = (moves.ANNOTATION_REPLACES, *moves.MARKS)
IGNORED = {"onPodConditions": [{"type": "DisruptionTarget", "status": "True"}], "action": "Ignore"}
"""Rule of a Job's failure policy: a disrupted pod does not count as failed."""


@dataclass
class History:
    """Extremes over every state that a watch reports: the most pods, the fewest ready pods, the available
    counts."""

    most: int = 0
    fewest_ready: int = 10**6
    names: list[set[str]] = field(default_factory=list)
    available: list[int] = field(default_factory=list)
    _now: dict[str, Object] = field(default_factory=dict)

    def begin(self, pods: Iterable[Object]) -> None:
        """Record the pods that exist at the start."""
        self._now = {pod.uid: pod for pod in pods}

    def pod(self, old: Object | None, new: Object | None) -> None:
        """Record a change of a pod."""
        pod = new or old
        assert pod is not None
        if new is None or new.deleting:
            self._now.pop(pod.uid, None)
        else:
            self._now[pod.uid] = new
        ready = [each for each in self._now.values() if condition(each.decode(), "Ready").get("status") == "True"]
        self.most = max(self.most, len(self._now))
        self.fewest_ready = min(self.fewest_ready, len(ready))
        named = [each.name for each in self._now.values()]
        assert len(named) == len(set(named))

    def replica_set(self, old: Object | None, new: Object | None) -> None:
        """Record the available replicas that the ReplicaSet controller reports."""
        if new is not None:
            self.available.append((new.decode().get("status") or {}).get("availableReplicas") or 0)


@contextlib.asynccontextmanager
async def watched(fleet: Fleet, namespace: str) -> AsyncIterator[History]:
    """Record all changes of pods and ReplicaSets in a namespace from now on."""
    history = History()
    pods, sets = (Informer(fleet.source, kind, namespace) for kind in (PODS, REPLICASETS))
    running = [asyncio.ensure_future(each.run()) for each in (pods, sets)]
    try:
        await pods.synced.wait()
        await sets.synced.wait()
        history.begin(pods.store)
        pods.subscribe(history.pod)
        sets.subscribe(history.replica_set)
        yield history
    finally:
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def send(fleet: Fleet, namespace: str, targets: str | None) -> None:
    """Set the targets annotation of a namespace; None removes it."""
    marks = {SHORT_PREFIX + "targets": targets}
    await fleet.source.patch(NAMESPACES, namespace, {"metadata": {"annotations": marks}})


@contextlib.asynccontextmanager
async def withdrawn_first(fleet: Fleet, namespace: str, target: str) -> AsyncIterator[set[str]]:
    """Names of a target's ended delegates. Each has to lose the label by which Services select it before it
    ends."""
    ended: set[str] = set()
    serving: set[str] = set()

    def note(old: Object | None, new: Object | None) -> None:
        pod = new or old
        if pod is not None and (new is None or new.deleting):
            ended.add(pod.name)
            if LABEL_SERVING in pod.labels:
                serving.add(pod.name)

    delegates = Informer(fleet.clients[target], PODS, namespace)
    running = asyncio.ensure_future(delegates.run())
    try:
        await delegates.synced.wait()
        delegates.subscribe(note)
        yield ended
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert not serving, f"Services led to them until they ended: {serving}"


async def deploy(fleet: Fleet, namespace: str, replicas: int = REPLICAS, **more: Any) -> Raw:
    """Create a Deployment and its Service in `eu`. Return its ReplicaSet."""
    await send(fleet, namespace, "eu")
    made = manifests.deployment("web", replicas)
    made["spec"] |= more
    await fleet.source.create(DEPLOYMENTS, made, namespace)
    await fleet.source.create(SERVICES, shared.service("web"), namespace)
    await in_target(fleet, namespace, "eu", replicas)
    return await counted(fleet, namespace, replicas)


async def counted(fleet: Fleet, namespace: str, replicas: int) -> Raw:
    """Return the only ReplicaSet, once its controller has counted its ready pods."""

    async def full() -> Raw:
        (found,) = await fleet.source.list(REPLICASETS, namespace)
        return found if found["status"].get("readyReplicas") == replicas else {}

    return await fleet.until("the ReplicaSet has counted its pods", full, about=namespace)


async def in_target(fleet: Fleet, namespace: str, target: str, count: int, app: str = "web") -> list[Raw]:
    """Wait until all pods of an application run in a target and no move is in progress. Return the pods."""

    async def there() -> list[Raw]:
        pods = await fleet.pods(namespace, app)
        done = all(
            pod["spec"].get("nodeName") == virtual_node(namespace, target)
            and condition(pod, "Ready").get("status") == "True"
            and not any(key in pod["metadata"]["annotations"] for key in LEFT_OVER)
            and pod["metadata"]["ownerReferences"][0].get("controller")
            for pod in pods
        )
        return pods if len(pods) == count and done else []

    return await fleet.until(f"{count} pods of {app} run in {target}", there, about=namespace, seconds=150)


async def told(fleet: Fleet, namespace: str, reason: str, count: int = 1, app: str = "web") -> list[Raw]:
    """Wait until `count` pods have this reason in the condition that explains a wrong place. Return them."""

    async def found() -> list[Raw]:
        pods = await fleet.pods(namespace, app)
        said = [pod for pod in pods if condition(pod, moves.CONDITION).get("reason") == reason]
        return said if len(said) >= count else []

    return await fleet.until(f"a pod says {reason}", found, about=namespace, seconds=90)


async def test_a_deployment_moves_with_no_pod_less_and_its_replica_set_stays(fleet: Fleet, namespace: str) -> None:
    before = await deploy(fleet, namespace)
    async with watched(fleet, namespace) as history:
        marks = {"metadata": {"annotations": {SHORT_PREFIX + moves.TARGETS: "us"}}}
        await fleet.source.patch(DEPLOYMENTS, "web", marks, namespace)
        await in_target(fleet, namespace, "us", REPLICAS)
    assert history.fewest_ready >= REPLICAS
    assert min(history.available) >= REPLICAS
    assert history.most <= REPLICAS + SURGE
    (after,) = await fleet.source.list(REPLICASETS, namespace)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    await fleet.agree(namespace)


@pytest.mark.full("The mover's model and controller tests cover a replacement without room.")
async def test_nothing_is_deleted_for_a_replacement_that_has_no_room(fleet: Fleet, namespace: str) -> None:
    await deploy(fleet, namespace, 2)
    node = virtual_node(namespace, "us")
    before = {pod["metadata"]["uid"] for pod in await fleet.pods(namespace, "web")}
    async with watched(fleet, namespace) as history:
        await fleet.source.patch(NODES, node, {"spec": {"unschedulable": True}})
        await send(fleet, namespace, "us")
        await told(fleet, namespace, "NoRoom")
        assert history.fewest_ready >= 2
        await send(fleet, namespace, "eu,us")
        pods = await in_target(fleet, namespace, "eu", 2)
        await told(fleet, namespace, "Placed")
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert history.fewest_ready >= 2


@pytest.mark.full("The mover's model and controller tests cover this kind of owner.")
async def test_one_replica_with_a_budget_is_moved(fleet: Fleet, namespace: str) -> None:
    budget = {
        "apiVersion": BUDGETS.api_version,
        "kind": BUDGETS.name,
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    await fleet.source.create(BUDGETS, budget, namespace)
    await deploy(fleet, namespace, 1)
    async with watched(fleet, namespace) as history:
        await fleet.source.patch(
            TARGETS, "eu", {"metadata": {"annotations": {SHORT_PREFIX + "retire": "true"}}}, namespace
        )
        await send(fleet, namespace, None)
        await in_target(fleet, namespace, "us", 1)
    assert history.fewest_ready >= 1


@pytest.mark.full("The mover's model and controller tests cover this kind of owner.")
async def test_pods_of_a_deployment_that_may_have_no_more_are_evicted_one_by_one(fleet: Fleet, namespace: str) -> None:
    await deploy(fleet, namespace, 2, strategy={"type": "Recreate"})
    await shared.known_everywhere(fleet, namespace, "web", 2)
    async with watched(fleet, namespace) as history, withdrawn_first(fleet, namespace, "eu") as ended:
        await send(fleet, namespace, "us")
        await in_target(fleet, namespace, "us", 2)
        await until(lambda: len(ended) == 2, what="both pods have ended in eu")
    assert history.fewest_ready >= 1
    assert history.most <= 2


@pytest.mark.full("The mover's model and controller tests cover this kind of owner.")
async def test_a_stateful_set_moves_the_highest_ordinal_first_once_its_budget_lets_it_and_no_service_leads_there(
    fleet: Fleet, namespace: str
) -> None:
    await send(fleet, namespace, "eu")
    await fleet.source.create(STATEFULSETS, manifests.stateful_set("db", 2), namespace)
    await fleet.source.create(SERVICES, shared.service("db"), namespace)
    budget = {"minAvailable": 2, "selector": {"matchLabels": {"app": "db"}}}
    await fleet.source.create(BUDGETS, {"metadata": {"name": "db"}, "spec": budget}, namespace)
    await in_target(fleet, namespace, "eu", 2, "db")
    await shared.known_everywhere(fleet, namespace, "db", 2)
    async with watched(fleet, namespace) as history, withdrawn_first(fleet, namespace, "eu") as ended:
        await send(fleet, namespace, "us")
        await told(fleet, namespace, "Moving", app="db")
        labels = [pod["metadata"]["labels"] for _, pod in (await fleet.delegates(namespace)).values()]
        assert all(LABEL_SERVING in each for each in labels), "what may not go serves on"
        await fleet.source.delete(BUDGETS, "db", namespace)
        pods = await in_target(fleet, namespace, "us", 2, "db")
        await until(lambda: len(ended) == 2, what="both pods have ended in eu")
    assert history.fewest_ready >= 1
    created = {pod["metadata"]["name"]: pod["metadata"]["creationTimestamp"] for pod in pods}
    assert created["db-1"] <= created["db-0"]


@pytest.mark.full("The mover's model and controller tests cover this kind of owner.")
async def test_scaled_to_zero_in_the_middle_nothing_is_left(fleet: Fleet, namespace: str) -> None:
    await deploy(fleet, namespace, 2)
    await send(fleet, namespace, "us")
    await told(fleet, namespace, "Moving")
    await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 0}}, namespace)
    probe = functools.partial(fleet.is_empty, namespace)
    await fleet.until("no pod is left", probe, about=namespace)


@pytest.mark.seldom
async def test_an_autoscaler_may_want_more_or_fewer_in_the_middle_of_a_move(fleet: Fleet, namespace: str) -> None:
    await deploy(fleet, namespace, 2)
    async with watched(fleet, namespace) as history:
        await send(fleet, namespace, "us")
        await told(fleet, namespace, "Moving")
        await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 4}}, namespace)
        await in_target(fleet, namespace, "us", 4)
        assert history.fewest_ready >= 2
        assert history.most <= 4 + SURGE
        await send(fleet, namespace, "eu")
        await told(fleet, namespace, "Moving")
        await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 1}}, namespace)
        await in_target(fleet, namespace, "eu", 1)
    assert history.fewest_ready >= 1
    await fleet.agree(namespace)


@pytest.mark.seldom
async def test_where_a_quota_allows_no_pod_more_the_pods_stay_until_it_does(fleet: Fleet, namespace: str) -> None:
    await deploy(fleet, namespace, 1)
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}}
    await fleet.source.create(RESOURCE_QUOTAS, quota, namespace)

    async def counted() -> bool:
        status = (await fleet.source.get(RESOURCE_QUOTAS, "few", namespace)).get("status") or {}
        return bool((status.get("used") or {}).get("pods") == "1")

    await fleet.until("the quota has counted the pod", counted, about=namespace)
    async with watched(fleet, namespace) as history:
        await send(fleet, namespace, "us")
        (pod,) = await told(fleet, namespace, "NoRoom")
        assert "exceeded quota" in condition(pod, moves.CONDITION)["message"]
        await fleet.source.delete(RESOURCE_QUOTAS, "few", namespace)
        await in_target(fleet, namespace, "us", 1)
    assert history.fewest_ready >= 1


@pytest.mark.full("The mover's model and controller tests cover this kind of owner.")
async def test_where_a_policy_refuses_replacements_pods_are_evicted(fleet: Fleet, namespace: str) -> None:
    await deploy(fleet, namespace, 1)
    async with refused_by_policy(fleet, namespace):
        await send(fleet, namespace, "us")
        await in_target(fleet, namespace, "us", 1)

    async def event() -> bool:
        return bool(await fleet.source.list(EVENTS, namespace, fields="reason=MoveWaiting"))

    await fleet.until("an event says why", event, about=namespace)


@contextlib.asynccontextmanager
async def refused_by_policy(fleet: Fleet, namespace: str) -> AsyncIterator[None]:
    """Deny replacements in a namespace with a ValidatingAdmissionPolicy."""
    key = moves.ANNOTATION_REPLACES
    allowed = f"!has(object.metadata.annotations) || !('{key}' in object.metadata.annotations)"
    probe = manifests.pod("probe", elect=None, annotations={key: "x"})
    refused = {**probe, "metadata": {**probe["metadata"], "namespace": namespace}}
    async with refusing(fleet.source, PODS, refused, allowed, "no replacements here"):
        yield


@pytest.mark.full("The mover's model and controller tests cover this kind of owner.")
async def test_a_rollout_in_the_middle_of_a_move_wins(fleet: Fleet, namespace: str) -> None:
    await deploy(fleet, namespace, 2)
    async with watched(fleet, namespace) as history:
        await send(fleet, namespace, "us")
        await told(fleet, namespace, "Moving")
        template = {"metadata": {"annotations": {"round": "2"}}}
        await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"template": template}}, namespace)
        pods = await in_target(fleet, namespace, "us", 2)
    assert {pod["metadata"]["annotations"]["round"] for pod in pods} == {"2"}
    assert history.most <= 2 + 2 * SURGE


@pytest.mark.full("The mover's model and controller tests cover this kind of owner.")
async def test_a_job_finishes_where_it_is_unless_it_asks_to_be_evicted(fleet: Fleet, namespace: str) -> None:
    await send(fleet, namespace, "eu")
    job = manifests.job("web", 1)
    job["spec"] |= {"backoffLimit": 0, "podFailurePolicy": {"rules": [IGNORED]}}
    job["spec"]["template"]["metadata"]["annotations"]["sandbox.flotilla/runs-for"] = "1h"
    await fleet.source.create(JOBS, job, namespace)
    await in_target(fleet, namespace, "eu", 1)
    await send(fleet, namespace, "us")
    await told(fleet, namespace, "Held")
    marks = {"metadata": {"annotations": {SHORT_PREFIX + moves.MOVE: moves.EVICT}}}
    await fleet.source.patch(NAMESPACES, namespace, marks)
    await in_target(fleet, namespace, "us", 1)
    status = (await fleet.source.get(JOBS, "web", namespace))["status"]
    assert (status["active"], status.get("failed", 0)) == (1, 0), "its failure policy knows that it was evicted"


@pytest.mark.seldom
async def test_a_paused_deployment_keeps_its_pods_where_they_are(fleet: Fleet, namespace: str) -> None:
    await deploy(fleet, namespace, 1)
    await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"paused": True}}, namespace)
    await send(fleet, namespace, "us")
    (pod,) = await told(fleet, namespace, "Held")
    assert "paused" in condition(pod, moves.CONDITION)["message"]
    await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"paused": False}}, namespace)
    await in_target(fleet, namespace, "us", 1)


CELLS = Kind("example.org", "v1", "cells", "Cell")
"""Kind that the agent does not support."""
DEFINITIONS = Kind(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)


async def cell_of(fleet: Fleet, namespace: str, name: str) -> Raw:
    body = {"apiVersion": CELLS.api_version, "kind": CELLS.name, "metadata": {"name": name}}
    made: Raw = await fleet.source.create(CELLS, body, namespace)
    return made


@contextlib.asynccontextmanager
async def cell(fleet: Fleet, namespace: str) -> AsyncIterator[Raw]:
    """Owner reference to a Cell; the test is its operator."""
    name = f"{CELLS.plural}.{CELLS.group}"
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    spec = {
        "group": CELLS.group,
        "scope": "Namespaced",
        "names": {"plural": CELLS.plural, "singular": "cell", "kind": CELLS.name},
        "versions": [version],
    }
    await fleet.source.create(DEFINITIONS, {"metadata": {"name": name}, "spec": spec})

    async def served() -> bool:
        return is_true((await fleet.source.get(DEFINITIONS, name)).get("status", {}).get("conditions"), "Established")

    try:
        await fleet.until("Cells are served", served, about=namespace)
        made = await cell_of(fleet, namespace, "web")
        head = {"apiVersion": CELLS.api_version, "kind": CELLS.name, "controller": True}
        yield {**head, "name": "web", "uid": made["metadata"]["uid"]}
    finally:
        await fleet.source.delete(DEFINITIONS, name)


async def make(fleet: Fleet, namespace: str, owner: Raw, name: str, app: str = "web", **spec: Any) -> None:
    """Create a pod as the operator of Cells does."""
    made = manifests.pod(name, annotations={"sandbox.flotilla/runs-for": "1h"}, **spec)
    made["metadata"] |= {"labels": {"app": app}, "ownerReferences": [owner]}

    async def there() -> bool:
        with contextlib.suppress(AlreadyExists):
            await fleet.source.create(PODS, made, namespace)
            return True
        return False

    await fleet.until(f"pod {name} is made", there, about=namespace)


@pytest.mark.full("The mover's model and controller tests cover this kind of owner.")
async def test_of_an_owner_of_an_unknown_kind_none_goes_before_it_has_made_another_for_the_one_before(
    fleet: Fleet, namespace: str
) -> None:
    async def left(*names: str) -> bool:
        return [pod["metadata"]["name"] for pod in await fleet.pods(namespace, "web")] == [*names]

    await send(fleet, namespace, "eu")
    async with cell(fleet, namespace) as owner:
        await make(fleet, namespace, owner, "web-0")
        await make(fleet, namespace, owner, "web-1")
        await in_target(fleet, namespace, "eu", 2)
        await send(fleet, namespace, "us")
        await fleet.until("the highest ordinal has gone", functools.partial(left, "web-0"), about=namespace)
        (held,) = await told(fleet, namespace, "Held")
        assert "of the 2 pods that its owner had 1 are there" in condition(held, moves.CONDITION)["message"]
        await make(fleet, namespace, owner, "web-1")
        await fleet.until("there is another, and the next goes", functools.partial(left, "web-1"), about=namespace)
        await make(fleet, namespace, owner, "web-0")
        await in_target(fleet, namespace, "us", 2)
        # A controller may not recreate a pod that runs to completion.
        await send(fleet, namespace, "us > eu")
        once = {**owner, "name": "once", "uid": (await cell_of(fleet, namespace, "once"))["metadata"]["uid"]}
        await make(fleet, namespace, once, "once", "once", restartPolicy="Never")
        await in_target(fleet, namespace, "us", 1, "once")
        marks = {"metadata": {"annotations": {SHORT_PREFIX + moves.TARGETS: "eu"}}}
        await fleet.source.patch(PODS, "once", marks, namespace)
        (held,) = await told(fleet, namespace, "Held", app="once")
        assert "that run to an end finish where they are" in condition(held, moves.CONDITION)["message"]
