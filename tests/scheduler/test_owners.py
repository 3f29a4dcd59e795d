"""Pods whose Deployment, StatefulSet or Job names their targets, created by a real controller manager."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CRON_JOBS, DEPLOYMENTS, EVENTS, JOBS, NAMESPACES, PODS, REPLICA_SETS, STATEFUL_SETS, Kind
from agent.api.names.moves import ANNOTATION_REPLACES, TARGETS
from agent.clusters.deps import Deps
from agent.kube.store import Object
from agent.model.proxypod import proxy_pod
from agent.placement.target_choice.controller import TargetChoiceController
from tests.controllers.proxies import elected, enable
from tests.controllers.starting import running
from tests.scheduler.reserving import Open, Stage
from tests.scheduler.test_placement import stand
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

KEY = names.SHORT_PREFIX + TARGETS
Raw = dict[str, Any]


def _room(deps: Deps) -> TargetChoiceController:
    assert deps.owners is not None
    return TargetChoiceController(deps, deps.owners)


def _template(stage: Stage) -> Raw:
    """Return a template whose pods are already proxy pods, as after the webhook."""
    finalizers = [target.finalizer for target in stage.targets.values()]
    proxy = proxy_pod(elected("web", stage.namespace), finalizers)
    metadata = {key: proxy["metadata"][key] for key in ("labels", "annotations", "finalizers")}
    return {"metadata": metadata, "spec": proxy["spec"]}


async def _deployed(stage: Stage, targets: str) -> Raw:
    return await stage.client.create(
        DEPLOYMENTS,
        {
            "metadata": {"name": "web", "namespace": stage.namespace, "annotations": {KEY: targets}},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": _template(stage)},
        },
    )


async def _say(stage: Stage, targets: str | None, kind: Kind = DEPLOYMENTS, name: str = "web") -> None:
    namespace = stage.namespace if kind.namespaced else None
    await stage.client.patch(kind, name, {"metadata": {"annotations": {KEY: targets}}}, namespace)


async def _scale(stage: Stage, replicas: int) -> None:
    await stage.client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": replicas}}, stage.namespace)


async def _counts(stage: Stage, count: int) -> dict[str, int]:
    """Return the number of running pods by target, once this many run."""
    where = list((await stage.run(count)).values())
    return {title: where.count(title) for title in set(where)}


async def _copied(stage: Stage, targets: str) -> str:
    """Return the name of the only ReplicaSet, once it has the annotation of its Deployment."""

    async def probe() -> str:
        (found,) = await stage.client.list(REPLICA_SETS, stage.namespace)
        metadata = found["metadata"]
        return metadata["name"] if metadata["annotations"].get(KEY) == targets else ""

    return await until(probe)


async def test_a_deployment_says_it_live_without_a_new_revision(opened: Open) -> None:
    async with opened(scheduling="ranked", moves=True, controllers=(_room,)) as stage:
        await stand(stage)
        await enable(stage.client, stage.namespace)
        await _deployed(stage, "us")
        assert await _counts(stage, 1) == {"us": 1}
        name = await _copied(stage, "us")
        await _say(stage, "eu")
        assert await _copied(stage, "eu") == name
        await _scale(stage, 2)
        assert await _counts(stage, 2) == {"us": 1, "eu": 1}
        await _say(stage, "eu us")
        message = await _event(stage)
        assert message.startswith("metadata.annotations[multicluster/targets] 'eu us' is no name of a target: write")
        await _scale(stage, 3)
        assert await _counts(stage, 3) == {"us": 1, "eu": 2}
        await _say(stage, "us", NAMESPACES, stage.namespace)
        await _say(stage, None)
        # ReplicaSets keep stale copies of their Deployment's annotations.
        await _scale(stage, 4)
        assert await _counts(stage, 4) == {"us": 2, "eu": 2}
        (found,) = await stage.client.list(REPLICA_SETS, stage.namespace)
        assert KEY in found["metadata"]["annotations"]
        await stage.client.delete(DEPLOYMENTS, "web", stage.namespace)
        await stage.empty()


async def _event(stage: Stage) -> str:
    """Return the Event of the Deployment; no other object has one."""

    async def probe() -> str:
        found = [each for each in await stage.client.list(EVENTS, stage.namespace) if _is_ours(each)]
        assert {each["involvedObject"]["kind"] for each in found} <= {DEPLOYMENTS.name}
        return found[0]["message"] if found else ""

    return await until(probe)


def _is_ours(event: Raw) -> bool:
    return bool(event["reason"] == "InvalidAnnotation")


async def test_without_moves_only_pods_and_namespaces_say_it(opened: Open) -> None:
    async with opened(scheduling="ranked") as stage:
        await stand(stage)
        assert stage.deps.owners is None
        await _say(stage, "eu", NAMESPACES, stage.namespace)
        await _deployed(stage, "us")
        assert await _counts(stage, 1) == {"eu": 1}
        await stage.client.delete(DEPLOYMENTS, "web", stage.namespace)
        await stage.empty()


async def test_with_whole_applications_what_controls_pods_says_it_without_moves_too(opened: Open) -> None:
    async with opened(scheduling="ranked", p2code=True) as stage:
        await stand(stage)
        await _say(stage, "eu", NAMESPACES, stage.namespace)
        await _deployed(stage, "us")
        assert await _counts(stage, 1) == {"us": 1}
        await stage.client.delete(DEPLOYMENTS, "web", stage.namespace)
        await stage.empty()


def _owned_by(namespace: str, kind: Kind, owner: Raw, replaces: str = "") -> Object:
    uid, name = owner["metadata"]["uid"], owner["metadata"]["name"]
    reference: Raw = {"apiVersion": kind.api_version, "kind": kind.name, "name": name, "uid": uid}
    reference["controller"] = not replaces
    metadata: Raw = {"name": "pod", "namespace": namespace, "uid": "1", "resourceVersion": "1"}
    metadata["ownerReferences"] = [reference]
    metadata["annotations"] = {ANNOTATION_REPLACES: replaces} if replaces else {}
    return Object(PODS, json.dumps({"metadata": metadata}).encode())


async def test_each_kind_that_controls_pods_has_a_say(cluster: Any, client: Any, namespace: str) -> None:
    selected = {"selector": {"matchLabels": {"app": "x"}}}
    template: Raw = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "busybox"}]}}
    job = {"suspend": True, "template": {"spec": {**template["spec"], "restartPolicy": "Never"}}}

    async def make(kind: Kind, name: str, spec: Raw, targets: str | None, owner: Raw | None = None) -> Raw:
        metadata: Raw = {"name": name, "annotations": {KEY: targets} if targets else {}}
        if owner is not None:
            metadata["ownerReferences"] = [
                {key: owner[key] for key in ("apiVersion", "kind")}
                | {key: owner["metadata"][key] for key in ("name", "uid")}
                | {"controller": True}
            ]
        made = await client.create(kind, {"metadata": metadata, "spec": spec}, namespace)
        return {**made, "apiVersion": kind.api_version, "kind": kind.name}

    cron = await make(CRON_JOBS, "c", {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": job}}, "cron")
    silent = await make(JOBS, "silent", job, None, cron)
    loud = await make(JOBS, "loud", job, "job", cron)
    alone = await make(REPLICA_SETS, "alone", {"replicas": 0, **selected, "template": template}, "alone")
    ordered = {"replicas": 0, **selected, "template": template, "serviceName": "none"}
    stateful = await make(STATEFUL_SETS, "s", ordered, "stateful")
    async with running(cluster, moves=True) as deps:

        def says(kind: Kind, owner: Raw) -> Callable[[], str]:
            pod = _owned_by(namespace, kind, owner)

            def probe() -> str:
                choice = deps.choices.of(pod)
                return choice.source if choice is not None and deps.choices.can_tell(pod) else ""

            return probe

        said = "multicluster/targets of"
        assert await until(says(JOBS, silent)) == f"{said} CronJob c (cron)"
        assert await until(says(JOBS, loud)) == f"{said} Job loud (job)"
        assert await until(says(REPLICA_SETS, alone)) == f"{said} ReplicaSet alone (alone)"
        assert await until(says(STATEFUL_SETS, stateful)) == f"{said} StatefulSet s (stateful)"
        replacement = deps.choices.of(_owned_by(namespace, REPLICA_SETS, alone, replaces="another"))
        assert replacement is not None
        assert replacement.source == f"{said} ReplicaSet alone (alone)"
        of_others = _owned_by(namespace, Kind("batch.volcano.sh", "v1alpha1", "jobs", "Job"), loud)
        assert deps.choices.of(of_others) is None
        unknown = _owned_by(namespace, JOBS, {"metadata": {"name": "loud", "uid": "another"}})
        choice = deps.choices.of(unknown)
        assert choice is not None
        assert choice.source == "jobs have not been read yet, which may say where the pod goes"
        assert not deps.choices.can_tell(unknown)
