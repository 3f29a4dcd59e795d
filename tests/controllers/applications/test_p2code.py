"""P2CODE's applications on a real API server: placed, applied, moved by an edit or by a claim, and deleted."""

import asyncio
import contextlib
import functools
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import pytest_asyncio
import yaml

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.crds import p2code_crds
from agent.api.kinds import (
    CLUSTER_TARGETS,
    CONFIGMAPS,
    DEPLOYMENTS,
    EVENTS,
    MANAGED_CLUSTERS,
    NAMESPACES,
    NODES,
    PLACEMENTS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SCHEDULING_MANIFESTS,
    SERVICE_ACCOUNTS,
    SERVICE_LINKS,
    SERVICES,
    TARGETS,
    Kind,
)
from agent.api.names import moves
from agent.api.names.ocm import LABEL_CLUSTER_SET
from agent.applications import P2CodeController
from agent.applications import controller as p2code
from agent.clusters.deps import Deps
from agent.kube.client import Client
from agent.kube.config import load
from agent.kube.errors import KubeError, NotFound
from agent.placement.placements.controller import PlacementController
from agent.runtime.controller import Controller
from hack.lab.sandbox import Cluster
from tests.cli.command import Told, flotilla
from tests.controllers.pair import Pair
from tests.controllers.starting import running
from tests.controllers.target_links import kubeconfig
from tests.docs.pages import DOCS, blocks
from tests.kube.relay import Relay
from tests.model.applications import container, manifest, workload
from tests.ocm import Hub, hub_of
from tests.waiting import defined, gone, until

Raw = dict[str, Any]

RULES = [
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["configmaps", "services"], "verbs": ["*"]},
]
"""Rights of the namespace's account."""
LINKS = {"apiGroups": [SERVICE_LINKS.group], "resources": ["servicelinks"], "verbs": ["*"]}
CLAIM = "p2code.filter.region"
PROVIDED = {names.PROVIDER_KEY: names.PROVIDER_VALUE}
API = {"matchLabels": {"app": "api"}}


@dataclass
class Stage:
    """A namespace with two targets, `to-eu` and `to-us`, whose clusters have the claim of their name."""

    hub: Hub
    client: Client
    namespace: str

    def objects(self, *names: str) -> list[Raw]:
        """Return workloads without pods, and a ConfigMap that the first one needs."""
        needs = {"volumes": [{"name": "v", "configMap": {"name": "settings"}}]}
        selector = [{"selector": {"matchLabels": {"app": each}}, "replicas": 0} for each in names]
        found = [
            workload(each, namespace=self.namespace, spec=needs if not index else {}, **selector[index])
            for index, each in enumerate(names)
        ]
        return [*found, manifest("ConfigMap", "settings", self.namespace, data={"a": "b"})]

    async def create(
        self, manifests: list[Raw], name: str = "shop", common: list[str] | None = None, **filters: str
    ) -> Raw:
        """Create an application whose workloads request regions."""
        own = [{"name": each, "annotations": [f"{CLAIM}={region}"]} for each, region in filters.items()]
        common = common or [f"p2code.target.managedClusterSet={self.namespace}"]
        spec = {"globalAnnotations": common, "workloadAnnotations": own, "manifests": manifests}
        metadata = {"name": name, "namespace": self.namespace}
        return await self.client.create(
            SCHEDULING_MANIFESTS,
            {
                "apiVersion": SCHEDULING_MANIFESTS.api_version,
                "kind": SCHEDULING_MANIFESTS.name,
                "metadata": metadata,
                "spec": spec,
            },
        )

    def node(self, short: str) -> str:
        """Return the name of a target's virtual node."""
        return names.virtual_node(self.namespace, f"to-{short}")

    async def region(self, short: str, value: str) -> None:
        """Set the region that a cluster claims."""
        status = {"clusterClaims": [{"name": CLAIM, "value": value}]}
        await self.client.patch(MANAGED_CLUSTERS, self.hub.name(short), {"status": status}, sub="status")

    async def become(self, state: str, reason: str = "", name: str = "shop", **decisions: str) -> Raw:
        """Wait until the application has a state, for a reason, with these decisions."""
        seen: Raw = {}

        async def probe() -> bool:
            nonlocal seen
            seen = await self.client.get(SCHEDULING_MANIFESTS, name, self.namespace)
            told = seen.get("status") or {}
            condition = find_condition(told.get("conditions"), state) or {}
            decided = {each["workloadName"]: each["clusterSelected"] for each in told.get("decisions") or ()}
            wanted = {workload: self.hub.name(short) for workload, short in decisions.items()}
            right = told.get("state") == state and (reason or state) == condition.get("reason")
            return right and decided == wanted and condition["observedGeneration"] == seen["metadata"]["generation"]

        try:
            await until(probe, what=f"{name} is {state}")
        except AssertionError:
            raise AssertionError(seen.get("status")) from None
        return seen

    async def told(self, type: str, reason: str = "", message: str = "") -> None:
        """Wait until a condition apart from the state has this reason and message; empty: until it does not exist."""

        async def probe() -> bool:
            status = (await self.get(SCHEDULING_MANIFESTS, "shop")).get("status") or {}
            found = find_condition(status.get("conditions"), type) or {}
            return (found.get("reason", ""), found.get("message", "")) == (reason, message)

        await until(probe, what=f"{type} is {reason or 'gone'}")

    async def pod(self, pod: Raw, type: str, status: str, reason: str = "", message: str = "") -> None:
        """Set a condition of a pod, as its kubelet or the mover does."""
        condition = {"type": type, "status": status, "reason": reason, "message": message}
        body = {"status": {"conditions": [condition]}}
        await self.client.patch(PODS, pod["metadata"]["name"], body, self.namespace, sub="status", style="strategic")

    async def bind(self, pod: Raw, short: str) -> None:
        """Bind a proxy pod to the virtual node of a target, as the scheduler does."""
        metadata = {"name": pod["metadata"]["name"]}
        binding = {"metadata": metadata, "target": {"kind": "Node", "name": self.node(short)}}
        await self.client.create(PODS, binding, self.namespace, sub="binding")

    async def get(self, kind: Kind, name: str) -> Raw:
        return await self.client.get(kind, name, self.namespace)

    async def targets(self) -> dict[str, str]:
        """Return the targets of each Deployment's pods."""
        found = await self.client.list(DEPLOYMENTS, self.namespace)
        return {each["metadata"]["name"]: each["metadata"]["annotations"]["multicluster/targets"] for each in found}

    async def edit(self, change: Callable[[Raw], None], name: str = "shop") -> None:
        """Change the spec."""
        psm = await self.get(SCHEDULING_MANIFESTS, name)
        change(psm["spec"])
        await self.client.patch(SCHEDULING_MANIFESTS, name, {"spec": psm["spec"]}, self.namespace)

    async def events(self, type: str = "Warning") -> Counter[str]:
        """Return the number of events of this type by reason."""
        found = await self.client.list(EVENTS, self.namespace, fields="involvedObject.name=shop")
        counts: Counter[str] = Counter()
        for each in found:
            counts[each["reason"]] += (each.get("count") or 1) if each["type"] == type else 0
        return counts

    async def heard(self, type: str, reason: str, times: int = 1) -> None:
        """Wait for an event."""

        async def probe() -> bool:
            return (await self.events(type))[reason] >= times

        await until(probe, what=f"event {reason}")


@pytest_asyncio.fixture
async def stage(pair: Pair) -> AsyncIterator[Stage]:
    client, namespace = pair.here, pair.namespace
    async with hub_of(client, namespace) as hub:
        (crd,) = p2code_crds()
        await defined(client, crd)
        stage = Stage(hub, client, namespace)
        for short in ("eu", "us"):
            await hub.make(
                MANAGED_CLUSTERS,
                hub.name(short),
                status={"clusterClaims": [{"name": CLAIM, "value": short}]},
                metadata={"labels": {LABEL_CLUSTER_SET: namespace}},
                spec={"hubAcceptsClient": True},
            )
            target = {"metadata": {"name": f"to-{short}"}, "spec": {"kubeconfigSecret": {"name": "none"}}}
            await client.create(TARGETS, {"apiVersion": TARGETS.api_version, "kind": TARGETS.name, **target}, namespace)
            status = {"managedCluster": hub.name(short)}
            await client.patch(TARGETS, f"to-{short}", {"status": status}, namespace, sub="status")
            metadata = {"name": stage.node(short), "labels": PROVIDED}
            await client.create(NODES, {"metadata": metadata})
        await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "p2code"}}, namespace)
        await allow(client, namespace, namespace)
        await until(functools.partial(_served, client, namespace))
        try:
            yield stage
        finally:
            for short in ("eu", "us"):
                await client.delete(NODES, stage.node(short))
            for psm in await client.list(SCHEDULING_MANIFESTS, namespace):
                name = psm["metadata"]["name"]
                with contextlib.suppress(NotFound):
                    await client.patch(SCHEDULING_MANIFESTS, name, {"metadata": {"finalizers": None}}, namespace)
                    await client.delete(SCHEDULING_MANIFESTS, name, namespace)


async def allow(client: Client, namespace: str, home: str) -> None:
    """Grant the account of one namespace its rights in another."""
    await client.create(ROLES, {"metadata": {"name": "p2code"}, "rules": RULES}, namespace)
    subject = {"kind": "ServiceAccount", "name": "p2code", "namespace": home}
    role = {"apiGroup": ROLES.group, "kind": "Role", "name": "p2code"}
    binding = {"metadata": {"name": "p2code"}, "subjects": [subject], "roleRef": role}
    await client.create(ROLE_BINDINGS, binding, namespace)


async def _served(client: Client, namespace: str) -> bool:
    try:
        await client.list(SCHEDULING_MANIFESTS, namespace)
        await client.as_user(f"system:serviceaccount:{namespace}:p2code").list(DEPLOYMENTS, namespace)
    except KubeError:
        return False
    return True


@contextlib.asynccontextmanager
async def at_work(
    pair: Pair, *capacities: Callable[[Deps], Controller[Any]], cluster: Cluster | None = None, **settings: Any
) -> AsyncIterator[Deps]:
    capacities = capacities or (PlacementController, P2CodeController)
    async with running(cluster or pair.clusters[0], *capacities, p2code=True, **settings) as deps:
        for short in ("eu", "us"):
            await deps.targets.connect((pair.namespace, f"to-{short}"), None, "first")
        yield deps


async def test_an_application_is_placed_applied_moved_and_deleted(pair: Pair, stage: Stage) -> None:
    async with at_work(pair):
        await stage.create(stage.objects("web", "api"), web="eu", api="us")
        await stage.become("SchedulingSuccessful", web="eu", api="us")
        assert await stage.targets() == {"web": "to-eu", "api": "to-us"}
        web = await stage.get(DEPLOYMENTS, "web")
        assert web["metadata"]["labels"]["scheduling.p2code.eu/owner"] == "shop"
        assert web["spec"]["template"]["metadata"]["annotations"] == {"multicluster/elect": ""}
        (owner,) = (await stage.get(PLACEMENTS, "web-shop"))["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["controller"]) == ("P2CodeSchedulingManifest", True)
        for reason in ("SchedulingInProgress", "PlacementDecisionReady", "SchedulingSuccessful"):
            await stage.heard("Normal", reason)

        # The user requests another claim for one bundle: it moves, and the other one stays.
        api = await stage.get(DEPLOYMENTS, "api")
        await stage.edit(lambda spec: spec["workloadAnnotations"][0].update(annotations=[f"{CLAIM}=us"]))
        await stage.become("SchedulingSuccessful", web="us", api="us")
        assert await stage.targets() == {"web": "to-us", "api": "to-us"}
        assert await stage.get(DEPLOYMENTS, "api") == api
        moved = await stage.get(DEPLOYMENTS, "web")
        assert moved["metadata"]["uid"] == web["metadata"]["uid"]
        assert moved["spec"] == web["spec"]

        # The cluster's claim changes, without an edit of the application.
        await stage.region("us", "ap")
        await stage.region("eu", "us")
        await stage.become("SchedulingSuccessful", web="eu", api="eu")
        await stage.region("eu", "ap")
        await stage.become("SchedulingFailed", "SchedulingAnnotationsUnsatisfied")
        await stage.heard("Warning", "SchedulingAnnotationsUnsatisfied")
        await stage.region("us", "us")
        await stage.become("SchedulingSuccessful", web="us", api="us")

        # Objects that no longer belong to the application are deleted.
        await stage.edit(lambda spec: (spec["manifests"].pop(1), spec["workloadAnnotations"].pop(1)))
        await stage.become("SchedulingSuccessful", web="us")
        await gone(functools.partial(stage.get, DEPLOYMENTS, "api"))
        await gone(functools.partial(stage.get, PLACEMENTS, "api-shop"))

        await stage.client.delete(SCHEDULING_MANIFESTS, "shop", stage.namespace)
        await gone(functools.partial(stage.get, SCHEDULING_MANIFESTS, "shop"))
        assert await stage.client.list(DEPLOYMENTS, stage.namespace) == []
        await gone(functools.partial(stage.get, CONFIGMAPS, "settings"))
        assert await stage.client.list(PLACEMENTS, stage.namespace) == []
        await stage.heard("Normal", "Finalizing")


async def test_a_cluster_that_is_lost_is_left_without_an_edit(pair: Pair, stage: Stage) -> None:
    unreachable = {"key": "cluster.open-cluster-management.io/unreachable", "effect": "NoSelect"}
    await stage.region("us", "eu")
    async with at_work(pair):
        await stage.create(stage.objects("web"), web="eu")

        async def decided() -> str:
            status = (await stage.get(SCHEDULING_MANIFESTS, "shop")).get("status") or {}
            if status.get("state") != "SchedulingSuccessful":
                return ""
            return str(status["decisions"][0]["clusterSelected"])

        lost = await until(decided)
        before = await stage.get(DEPLOYMENTS, "web")
        taint: Raw = {"spec": {"taints": [{**unreachable, "timeAdded": "2026-01-01T00:00:00Z"}]}}
        await stage.client.patch(MANAGED_CLUSTERS, str(lost), taint)
        other = "eu" if lost == stage.hub.name("us") else "us"
        await stage.become("SchedulingSuccessful", web=other)
        assert await stage.targets() == {"web": f"to-{other}"}
        after = await stage.get(DEPLOYMENTS, "web")
        assert (after["metadata"]["uid"], after["spec"]) == (before["metadata"]["uid"], before["spec"])


async def test_one_cluster_for_everything_follows_the_annotation_and_each_change_is_an_event(
    pair: Pair, stage: Stage
) -> None:
    for number, short in enumerate(("eu", "us"), start=1):
        common = [
            f"p2code.target.managedClusterSet={stage.namespace}",
            f"p2code.target.cluster={stage.hub.name(short)}",
        ]
        # An agent of its own, since the recorder repeats an event at most once a minute.
        async with at_work(pair):
            if number == 1:
                await stage.create(stage.objects("web"), common=common)
            else:
                await stage.edit(lambda spec, common=common: spec.update(globalAnnotations=common))
            await stage.become("SchedulingSuccessful", shop=short)
            assert await stage.targets() == {"web": f"to-{short}"}
            await stage.heard("Normal", "SchedulingSuccessful", times=number)
    assert await stage.client.list(PLACEMENTS, stage.namespace) == []


async def test_the_command_explains_one_as_it_is_typed(pair: Pair, stage: Stage) -> None:
    where = stage.namespace

    async def said(*words: str) -> Told:
        return await flotilla("explain", "psm", *words, "-n", where, "--kubeconfig", str(pair.clusters[0].kubeconfig))

    code, output, errors = await said("nobody")
    assert (code, output) == (1, "")
    assert f"there is no P2CodeSchedulingManifest {where}/nobody (there is: none)" in errors
    async with at_work(pair):
        await stage.client.create(SERVICES, {"metadata": {"name": "old"}, "spec": {"ports": [{"port": 80}]}}, where)
        manifests = stage.objects("web", "api")
        manifests[1]["spec"]["template"]["spec"] |= container(
            env=[{"name": "OLD", "value": "old:80"}], envFrom=[{"secretRef": {"name": "keys"}}]
        )
        await stage.create(manifests, web="eu", api="us")
        await stage.become("SchedulingSuccessful", "UndefinedResources", web="eu", api="us")
        code, output, errors = await said("shop", "--agent-flag=--p2code-precedence=and")
        assert (code, errors) == (0, "")
        assert output.startswith(f"P2CodeSchedulingManifest {where}/shop: SchedulingSuccessful\n")
        rows = {line.split()[0]: line for line in output.splitlines() if line}
        for part in (stage.hub.name("eu"), f"{CLAIM}=eu", f"Deployment {where}/web, ConfigMap {where}/settings"):
            assert part in rows["web"]
        for part in (stage.hub.name("us"), f"{where}/old:80", "Secret keys"):
            assert part in rows["api"]


async def test_the_example_of_the_docs_is_served_as_it_is_written(pair: Pair, stage: Stage) -> None:
    (block,) = blocks(DOCS / "guides/applications.md", "yaml")
    # Only the name is replaced: ManagedClusterSets are cluster-scoped.
    text = block.text.replace("shop", stage.namespace).replace("=edge", f"={stage.namespace}")
    psm = yaml.safe_load(text)
    async with at_work(pair):
        await stage.client.create(SCHEDULING_MANIFESTS, psm)
        await stage.become("SchedulingSuccessful", name="example", web="eu")
        web = await stage.get(DEPLOYMENTS, "web")
        assert web["spec"]["template"]["metadata"]["annotations"] == {"multicluster/elect": ""}
        assert await stage.targets() == {"web": "to-eu"}
        assert (await stage.get(CONFIGMAPS, "settings"))["data"] == {"LEVEL": "info"}


@pytest.mark.full("Two agents, one after the other; the first-tier tests of this file begin and end one.")
async def test_one_of_the_same_name_waits_for_nobody_to_collect_what_the_one_before_has_left(
    pair: Pair, stage: Stage
) -> None:
    async with at_work(pair):
        before = await stage.create(stage.objects("web"), web="eu")
        await stage.become("SchedulingSuccessful", web="eu")
    # A user removes the finalizer, deletes the object and recreates it while no agent runs.
    without: Raw = {"metadata": {"finalizers": None}}
    await stage.client.patch(SCHEDULING_MANIFESTS, "shop", without, stage.namespace)
    await stage.client.delete(DEPLOYMENTS, "web", stage.namespace)
    await stage.client.delete(CONFIGMAPS, "settings", stage.namespace)
    await stage.client.delete(SCHEDULING_MANIFESTS, "shop", stage.namespace)
    async with at_work(pair):
        for _ in range(2):
            await stage.create(stage.objects("web"), web="eu")
            await stage.become("SchedulingSuccessful", web="eu")
            (owner,) = (await stage.get(PLACEMENTS, "web-shop"))["metadata"]["ownerReferences"]
            assert owner["uid"] not in ("", before["metadata"]["uid"])
            await stage.client.delete(SCHEDULING_MANIFESTS, "shop", stage.namespace)
            await gone(functools.partial(stage.get, SCHEDULING_MANIFESTS, "shop"))
        assert not (await stage.events())["ManifestWorkFailed"]


async def test_nothing_is_applied_before_everything_fits(pair: Pair, stage: Stage) -> None:
    await stage.client.patch(NODES, stage.node("us"), {"spec": {"unschedulable": True}})
    async with at_work(pair):
        await stage.create(stage.objects("web", "api"), web="eu", api="us")
        told = await stage.become("SchedulingFailed", "NotAllDecisionsScheduled")
        message = (find_condition(told["status"]["conditions"], "SchedulingFailed") or {})["message"]
        assert message.endswith("was selected for workload api: to-us: virtual node is cordoned")
        assert await stage.client.list(DEPLOYMENTS, stage.namespace) == []
        await stage.client.patch(NODES, stage.node("us"), {"spec": {"unschedulable": None}})
        await stage.become("SchedulingSuccessful", web="eu", api="us")
        # Applied objects stay, whatever happens to the target, even after a temporary mistake.
        await stage.client.patch(NODES, stage.node("us"), {"spec": {"unschedulable": True}})
        await stage.edit(lambda spec: spec["globalAnnotations"].append("color=red"))
        await stage.become("Misconfigured", "UnsupportedAnnotation")
        await stage.edit(lambda spec: spec["globalAnnotations"].pop())
        await stage.become("SchedulingSuccessful", web="eu", api="us")
        await stage.edit(lambda spec: spec["workloadAnnotations"][0].update(annotations=[f"{CLAIM}=us"]))
        await stage.become("SchedulingFailed", "NotAllDecisionsScheduled")
        assert await stage.targets() == {"web": "to-eu", "api": "to-us"}


async def test_what_becomes_of_pods_is_told(pair: Pair, stage: Stage) -> None:
    async with at_work(pair, moves=True):
        web = workload(
            namespace=stage.namespace,
            spec={"schedulerName": names.SCHEDULER_PROXY},
            selector={"matchLabels": {"app": "web"}},
        )
        await stage.create([web], web="eu")
        await stage.told("WorkloadsReady", "NotReady", "ready: web 0 of 1")
        (pod,) = await until(functools.partial(stage.client.list, PODS, stage.namespace))
        await stage.pod(pod, "Ready", "True")
        await stage.told("WorkloadsReady", "Ready", "ready: web 1 of 1")
        await stage.pod(pod, moves.CONDITION, "False", "Held", "as it says")
        words = f"workload web: pod {pod['metadata']['name']}: as it says"
        await stage.told("CannotMove", "Held", words)
        await stage.pod(pod, moves.CONDITION, "True", "Placed")
        await stage.told("CannotMove")


async def test_pods_that_nobody_moves_are_told_until_they_are_where_they_should_be(pair: Pair, stage: Stage) -> None:
    async with at_work(pair) as deps:
        web = workload(
            namespace=stage.namespace,
            spec={"schedulerName": names.SCHEDULER_PROXY},
            selector={"matchLabels": {"app": "web"}},
        )
        await stage.create([web, *stage.objects("api")], web="eu", api="eu")
        (pod,) = await until(functools.partial(stage.client.list, PODS, stage.namespace))
        await stage.bind(pod, "eu")
        await stage.become("SchedulingSuccessful", web="eu", api="eu")
        await stage.told("CannotMove")

        await stage.edit(lambda spec: spec["workloadAnnotations"][0].update(annotations=[f"{CLAIM}=us"]))
        name = pod["metadata"]["name"]
        words = (
            f"workload web: pods of deployment/web are elsewhere ({name}): the agent moves none: remove "
            f"agent.settings.moves=false, or kubectl rollout restart -n {stage.namespace} deployment/web"
        )
        await stage.told("CannotMove", "MovesOff", words)
        await stage.become("SchedulingSuccessful", web="us", api="eu")

        # As in a restart: the next pod may run in the other target only, which ends the state.
        await stage.client.delete(PODS, name, stage.namespace, grace=0)
        new = await until(functools.partial(_another, stage, name))
        choice = deps.choices.of(await until(functools.partial(_known, deps, new)))
        assert choice is not None
        homes = [SimpleNamespace(namespace=stage.namespace, title=title) for title in ("to-eu", "to-us")]
        assert [each.title for each in homes if choice.admits(cast("Any", each))] == ["to-us"]
        await stage.bind(new, "us")
        await stage.told("CannotMove")

        # The decision returns to the cluster of the pods.
        await stage.edit(lambda spec: spec["workloadAnnotations"][0].update(annotations=[f"{CLAIM}=eu"]))
        await stage.told("CannotMove", "MovesOff", words.replace(name, new["metadata"]["name"]))
        await stage.edit(lambda spec: spec["workloadAnnotations"][0].update(annotations=[f"{CLAIM}=us"]))
        await stage.told("CannotMove")


async def _another(stage: Stage, name: str) -> Raw | None:
    found = await stage.client.list(PODS, stage.namespace)
    return next((each for each in found if each["metadata"]["name"] != name), None)


async def _known(deps: Deps, pod: Raw) -> Any:
    return deps.proxies.informer.store.get((pod["metadata"]["namespace"], pod["metadata"]["name"]))


async def elsewhere(stage: Stage) -> tuple[str, str]:
    """Create another namespace with the same rights, and a ClusterTarget that points from it to `us`."""
    other, target = f"{stage.namespace}-b", f"{stage.namespace}-c"
    await stage.hub.make(NAMESPACES, other, metadata={"labels": {names.LABEL_ENABLED: names.ENABLED_VALUE}})
    kubeconfig = {"kubeconfigSecret": {"namespace": stage.namespace, "name": "none"}}
    status = {"managedCluster": stage.hub.name("us")}
    await stage.hub.make(CLUSTER_TARGETS, target, status=status, spec=kubeconfig)
    await stage.hub.make(NODES, names.virtual_node("", target), metadata={"labels": PROVIDED})
    await allow(stage.client, other, stage.namespace)
    return other, target


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_namespace_that_goes_with_what_was_applied_there_holds_nothing_up(pair: Pair, stage: Stage) -> None:
    """Its roles are deleted first: the account may then no longer read the other objects."""
    client = stage.client
    other, target = await elsewhere(stage)
    async with at_work(pair) as deps:
        await deps.targets.connect(("", target), None, "first")
        manifests = [*stage.objects("web"), workload("api", namespace=other, spec={}, selector=API, replicas=0)]
        await stage.create(manifests, web="eu", api="us")
        await stage.become("SchedulingSuccessful", web="eu", api="us")
        await client.delete(NAMESPACES, other)
        await gone(functools.partial(client.get, NAMESPACES, other))
        await client.delete(SCHEDULING_MANIFESTS, "shop", stage.namespace)
        await gone(functools.partial(stage.get, SCHEDULING_MANIFESTS, "shop"))
        assert await client.list(DEPLOYMENTS, stage.namespace) == []


async def test_callers_in_another_namespace_are_linked_by_the_rights_of_the_account(pair: Pair, stage: Stage) -> None:
    client = stage.client
    other, cluster = await elsewhere(stage)
    front = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    called = [{"name": "FRONT", "value": "front:80"}]
    manifests = [
        *stage.objects("web"),
        manifest("Service", "front", stage.namespace, spec=front),
        workload("api", namespace=other, spec=container(env=called), selector=API, replicas=0),
    ]
    async with at_work(pair, service_links=True, link_namespaces=True) as deps:
        await deps.targets.connect(("", cluster), None, "first")
        await stage.create(manifests, web="eu", api="us")
        told = await stage.become("SchedulingFailed", "ManifestWorkFailed", web="eu", api="us")
        message = (find_condition(told["status"]["conditions"], "SchedulingFailed") or {})["message"]
        assert 'cannot list resource "servicelinks"' in message
        await client.patch(ROLES, "p2code", {"rules": [*RULES, LINKS]}, stage.namespace)
        await client.patch(SCHEDULING_MANIFESTS, "shop", {"metadata": {"labels": {"again": ""}}}, stage.namespace)
        link = await until(functools.partial(stage.get, SERVICE_LINKS, "front-" + other + "-shop"))
        assert link["spec"] == {"service": "front", "ports": [80], "to": [{"cluster": cluster, "namespace": other}]}
        # The link is deleted with the call.
        await stage.edit(lambda spec: spec["manifests"][-1]["spec"]["template"]["spec"]["containers"][0].pop("env"))
        await gone(functools.partial(stage.get, SERVICE_LINKS, link["metadata"]["name"]))
        await client.delete(SCHEDULING_MANIFESTS, "shop", stage.namespace)
        await gone(functools.partial(stage.get, SCHEDULING_MANIFESTS, "shop"))


@pytest.mark.full("A Service that comes late; the first tier keeps Services that come in time.")
async def test_a_service_that_comes_later_without_the_application_is_called_too(pair: Pair, stage: Stage) -> None:
    client, where = stage.client, stage.namespace
    async with at_work(pair, service_links=True):
        calling = container(env=[{"name": "OLD", "value": "old:80"}])
        api = workload("api", namespace=where, spec=calling, selector=API, replicas=0)
        await stage.create([api], api="us")
        await stage.become("SchedulingSuccessful", api="us")
        await client.create(SERVICES, {"metadata": {"name": "old"}, "spec": {"ports": [{"port": 80}]}}, where)
        link = {"apiVersion": SERVICE_LINKS.api_version, "kind": SERVICE_LINKS.name, "metadata": {"name": "old"}}
        await client.create(SERVICE_LINKS, {**link, "spec": {"service": "old"}}, where)
        row = {"cluster": "to-us", "namespace": where, "driver": "none", "from": ["to-eu"]}
        row |= {"ready": "False", "reason": "NoPath", "message": "no way"}
        status = {"clusters": [row]}
        await client.patch(SERVICE_LINKS, "old", {"status": status}, where, sub="status")
        await stage.become("ScheduledWithUnreliableConnectivity", "MultiClusterNetworkResourceMissing", api="us")
        await stage.told("LinksReady", "NoPath", f"workload api in {stage.hub.name('us')} calls {where}/old:80: no way")


@pytest.fixture
def touched_seconds(monkeypatch: pytest.MonkeyPatch) -> float:
    """Shorten the delay after which changes by users are reverted; return it in seconds."""
    seconds = 2.0
    monkeypatch.setattr(p2code, "TOUCHED_SECONDS", seconds)
    return seconds


@pytest.mark.usefixtures("touched_seconds")
async def test_what_somebody_deletes_or_changes_is_put_right_soon(pair: Pair, stage: Stage) -> None:
    client, where = stage.client, stage.namespace
    async with at_work(pair):
        front = manifest("Service", "front", where, spec={"selector": {"app": "web"}, "ports": [{"port": 80}]})
        await stage.create([*stage.objects("web"), front], web="eu")
        await stage.become("SchedulingSuccessful", web="eu")
        objects = ((CONFIGMAPS, "settings"), (SERVICES, "front"), (DEPLOYMENTS, "web"))
        before = [(await stage.get(kind, name))["metadata"]["uid"] for kind, name in objects]
        for kind, name in objects:
            await client.delete(kind, name, where)
        for (kind, name), uid in zip(objects, before, strict=True):
            await until(functools.partial(_anew, stage, kind, name, uid), forgiven=NotFound)
        await client.patch(CONFIGMAPS, "settings", {"data": {"a": "x"}}, where)

        async def right() -> bool:
            return bool((await stage.get(CONFIGMAPS, "settings"))["data"] == {"a": "b"})

        await until(right)
        await stage.become("SchedulingSuccessful", web="eu")


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_what_somebody_writes_into_a_workload_is_put_right_soon_once_but_not_because_it_was_scaled(
    pair: Pair, stage: Stage, touched_seconds: float
) -> None:
    client, where = stage.client, stage.namespace
    async with at_work(pair):
        await stage.create(stage.objects("web"), web="eu")
        await stage.become("SchedulingSuccessful", web="eu")
        web = await stage.get(DEPLOYMENTS, "web")
        image = web["spec"]["template"]["spec"]["containers"][0]["image"]
        await client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 1}}, where, sub="scale")
        # By then any other change would have been reverted.
        await asyncio.sleep(touched_seconds + 1)
        assert (await stage.get(DEPLOYMENTS, "web"))["spec"]["replicas"] == 1
        other = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "else"}]}}}}
        await client.patch(DEPLOYMENTS, "web", other, where, style="strategic")

        async def right() -> bool:
            spec = (await stage.get(DEPLOYMENTS, "web"))["spec"]
            return bool(spec["template"]["spec"]["containers"][0]["image"] == image)

        await until(right)

        # The agent does not revert a change that the user repeats.
        await client.patch(DEPLOYMENTS, "web", other, where, style="strategic")
        await asyncio.sleep(touched_seconds + 1)
        assert not await right()


async def _anew(stage: Stage, kind: Kind, name: str, before: str) -> bool:
    return bool((await stage.get(kind, name))["metadata"]["uid"] != before)


HELD = {"metadata": {"finalizers": ["example.com/held"]}}
FORCED = {"metadata": {"annotations": {"multicluster/force-remove": "true"}}}


@pytest.mark.parametrize("when", ["once it is held", "before it is deleted"])
async def test_deletion_holds_while_anything_is_left_and_can_be_forced(pair: Pair, stage: Stage, when: str) -> None:
    """A forced deletion deletes the objects without waiting for them."""
    client, where = stage.client, stage.namespace
    async with at_work(pair):
        await stage.create(stage.objects("web"), web="eu")
        await stage.become("SchedulingSuccessful", web="eu")
        await client.patch(DEPLOYMENTS, "web", HELD, where)
        if when == "before it is deleted":
            await client.patch(SCHEDULING_MANIFESTS, "shop", FORCED, where)
        await client.delete(SCHEDULING_MANIFESTS, "shop", where)
        if when == "once it is held":
            what = f"Deployment {where}/web (it is being deleted, and held by finalizers: example.com/held)"
            await stage.told("ObjectsLeft", "StillThere", f"waiting for {what}, ConfigMap {where}/settings")
            told = await stage.become("Finalizing")
            message = (find_condition(told["status"]["conditions"], "Finalizing") or {})["message"]
            assert message == "Performing finalizing operations before deleting P2CodeSchedulingManifest"
            assert await stage.get(CONFIGMAPS, "settings")
            await client.patch(SCHEDULING_MANIFESTS, "shop", FORCED, where)
        await gone(functools.partial(stage.get, SCHEDULING_MANIFESTS, "shop"))
        assert (await stage.get(DEPLOYMENTS, "web"))["metadata"]["deletionTimestamp"]
        await gone(functools.partial(stage.get, CONFIGMAPS, "settings"))
        await gone(functools.partial(stage.get, PLACEMENTS, "web-shop"))
        await client.patch(DEPLOYMENTS, "web", {"metadata": {"finalizers": None}}, where)
        await gone(functools.partial(stage.get, DEPLOYMENTS, "web"))


async def test_after_a_restart_nothing_is_written(pair: Pair, stage: Stage, tmp_path: Path) -> None:
    async with at_work(pair):
        await stage.create(stage.objects("web"), web="eu")
        before = await stage.become("SchedulingSuccessful", web="eu")
        versions = [await _version(stage, kind, name) for kind, name in WRITTEN]
    async with (
        running(pair.clusters[0], PlacementController),
        Relay.started(load(str(pair.clusters[0].kubeconfig))) as relay,
        at_work(pair, P2CodeController, cluster=_behind(relay, pair, tmp_path)),
    ):
        # Another application is finished meanwhile, which proves that the first was reconciled.
        other = [
            {**each, "metadata": {**each["metadata"], "name": f"other-{n}"}}
            for n, each in enumerate(stage.objects("x"))
        ]
        other[0]["spec"]["template"]["spec"].pop("volumes")
        await stage.create(other[:1], "second", **{"other-0": "us"})
        await stage.become("SchedulingSuccessful", name="second", **{"other-0": "us"})
        assert await stage.get(SCHEDULING_MANIFESTS, "shop") == before
        assert [await _version(stage, kind, name) for kind, name in WRITTEN] == versions
        # No request was sent that would change nothing.
        sent = {path.partition("?")[0].rpartition("/")[2] for method, path in relay.requests if method != "GET"}
        assert "other-0" in sent
        assert not sent & {"shop", *(name for _, name in WRITTEN)}


def _behind(relay: Relay, pair: Pair, folder: Path) -> Cluster:
    """Return the local cluster as reached through a relay."""
    path = folder / "kubeconfig"
    path.write_text(kubeconfig(pair.clusters[0], server=relay.connection.server, user={}))
    return cast("Cluster", SimpleNamespace(kubeconfig=path))


WRITTEN = ((DEPLOYMENTS, "web"), (CONFIGMAPS, "settings"), (PLACEMENTS, "web-shop"))


async def _version(stage: Stage, kind: Kind, name: str) -> str:
    """Return a version of the fields that we write: other controllers write the status."""
    metadata = (await stage.get(kind, name))["metadata"]
    ours = [each for each in metadata["managedFields"] if not each.get("subresource")]
    return str((metadata["uid"], metadata.get("generation", 0), ours))


@pytest.mark.seldom
async def test_killed_at_every_write_it_converges(pair: Pair, stage: Stage, tmp_path: Path) -> None:
    async with (
        running(pair.clusters[0], PlacementController),
        Relay.started(load(str(pair.clusters[0].kubeconfig))) as relay,
    ):
        agent = _behind(relay, pair, tmp_path)

        async def lives(done: Callable[[], Awaitable[bool]]) -> int:
            """Start agents that are killed after their first write; return how many were needed."""
            for number in range(25):
                wrote = asyncio.Event()

                def dies(method: str, path: str, wrote: asyncio.Event = wrote) -> bool:
                    is_write = method != "GET" and not path.endswith(("/events", "reviews"))
                    if is_write and not wrote.is_set():
                        wrote.set()
                        relay.cut()
                    return is_write

                relay.lose_reply = dies
                async with at_work(pair, P2CodeController, cluster=agent):
                    await until(functools.partial(_either, wrote, done))
                relay.mend()
                if not wrote.is_set():
                    return number
            raise AssertionError(relay.requests[-30:])

        async def successful() -> bool:
            status = (await stage.get(SCHEDULING_MANIFESTS, "shop")).get("status") or {}
            return status.get("state") == "SchedulingSuccessful"

        async def is_gone() -> bool:
            with contextlib.suppress(NotFound):
                return not await stage.get(SCHEDULING_MANIFESTS, "shop")
            return True

        await stage.create(stage.objects("web", "api"), web="eu", api="us")
        assert await lives(successful) > 5
        assert await stage.targets() == {"web": "to-eu", "api": "to-us"}
        assert await stage.get(CONFIGMAPS, "settings")
        await stage.client.delete(SCHEDULING_MANIFESTS, "shop", stage.namespace)
        assert await lives(is_gone) > 2
        assert await stage.client.list(DEPLOYMENTS, stage.namespace) == []
        await gone(functools.partial(stage.get, CONFIGMAPS, "settings"))


async def _either(wrote: asyncio.Event, done: Callable[[], Awaitable[bool]]) -> bool:
    return wrote.is_set() or await done()


async def test_what_the_account_may_not_and_what_is_foreign_is_refused_in_words(pair: Pair, stage: Stage) -> None:
    async with at_work(pair):
        secret = manifest("Secret", "keys", stage.namespace, stringData={"a": "b"})
        web = workload(
            namespace=stage.namespace,
            spec={"volumes": [{"name": "v", "secret": {"secretName": "keys"}}]},
            selector={"matchLabels": {"app": "web"}},
            replicas=0,
        )
        await stage.create([web, secret], web="eu")
        told = await stage.become("SchedulingFailed", "ManifestWorkFailed", web="eu")
        message = (find_condition(told["status"]["conditions"], "SchedulingFailed") or {})["message"]
        assert f'User "system:serviceaccount:{stage.namespace}:p2code" cannot' in message
        assert message[0].isupper()
        await stage.client.create(CONFIGMAPS, {"metadata": {"name": "settings"}}, stage.namespace)
        await stage.create(stage.objects("db"), "second", db="us")
        told = await stage.become("SchedulingFailed", "ManifestWorkFailed", name="second", db="us")
        message = (find_condition(told["status"]["conditions"], "SchedulingFailed") or {})["message"]
        assert f"ConfigMap {stage.namespace}/settings: an object of that name is there already" in message


async def test_in_a_namespace_that_is_not_enabled_nothing_is_applied_for_its_pods_would_stay_here(
    pair: Pair, stage: Stage
) -> None:
    label: Raw = {"metadata": {"labels": {names.LABEL_ENABLED: None}}}
    await stage.client.patch(NAMESPACES, stage.namespace, label)
    async with at_work(pair):
        await stage.create(stage.objects("web"), web="eu")
        told = await stage.become("Misconfigured", "MisconfiguredManifest")
        message = (find_condition(told["status"]["conditions"], "Misconfigured") or {})["message"]
        assert message.endswith(f": kubectl label namespace {stage.namespace} multicluster-scheduler=enabled")
        assert await stage.client.list(DEPLOYMENTS, stage.namespace) == []
        label["metadata"]["labels"] = {names.LABEL_ENABLED: names.ENABLED_VALUE}
        await stage.client.patch(NAMESPACES, stage.namespace, label)
        await stage.become("SchedulingSuccessful", web="eu")


async def test_what_is_wrong_is_told_and_a_binding_that_is_missing_is_waited_for(pair: Pair, stage: Stage) -> None:
    async with at_work(pair):
        await stage.create([manifest("PersistentVolume", "v", stage.namespace)], web="eu")
        await stage.become("Misconfigured", "MisconfiguredManifest")
        await stage.edit(lambda spec: spec.update(manifests=stage.objects("web")))
        await stage.become("SchedulingSuccessful", web="eu")
        await stage.edit(lambda spec: spec["globalAnnotations"].append("color=red"))
        await stage.become("Misconfigured", "UnsupportedAnnotation")
        # Running workloads are unchanged.
        assert await stage.targets() == {"web": "to-eu"}
    async with at_work(pair, placement="off"):
        await stage.edit(lambda spec: spec["globalAnnotations"].pop())
        await stage.become("SchedulingFailed", "InvalidTarget")
    async with at_work(pair, p2code_namespace="p2code-scheduler-system"):
        await stage.become("Misconfigured", "IncorrectNamespace")
