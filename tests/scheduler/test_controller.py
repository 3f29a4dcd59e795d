"""The proxy scheduler on a real API server, with a relay that loses selected messages (rulings 1 and 2)."""

import functools
import json
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, NAMESPACES, NODES, PODS, TARGETS
from agent.kube.client import Client
from agent.kube.config import load
from agent.model.proxypod import proxy_pod
from agent.pods.chaperon.controller import Chaperon
from agent.pods.feedback.controller import Feedback
from agent.ranking.rank import Ranking
from agent.scheduler import proxy_writer
from agent.scheduler.controller import ProxyScheduler
from agent.scheduler.proxy_writer import ProxyWriter
from agent.scheduler.reserve import controller as reserve
from agent.scheduler.reserve.decide import NO_SCHEDULER
from agent.scheduler.reserve.view import Timeouts
from hack.lab.sandbox import Cluster
from tests.controllers.proxies import chaperons, connected, create, elected, enable, pod_where
from tests.controllers.starting import running
from tests.controllers.target_links import target as of_itself
from tests.e2e.manifests import only_on
from tests.kube.relay import Relay
from tests.waiting import until

pytestmark = pytest.mark.cluster

ALL = (Chaperon, Feedback, ProxyScheduler)


async def waiting(client: Client, namespace: str, name: str, word: str = "") -> str:
    """Return why a pod waits, once the reason contains this word."""

    async def probe() -> str | None:
        conditions = (await client.get(PODS, name, namespace))["status"].get("conditions", [])
        told = [c["message"] for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"]
        return next((message for message in told if word in message), None)

    return await until(probe) or ""


def is_post(method: str, path: str) -> bool:
    return method == "POST" and path.endswith("/podchaperons")


async def test_a_chaperon_whose_creation_was_not_confirmed_is_not_created_twice(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    lost: list[str] = []

    def lose(method: str, path: str) -> bool:
        if is_post(method, path) and len(lost) < 2:
            lost.append(path)
            return True
        return False

    async with (
        Relay.started(load(str(cluster.kubeconfig))) as relay,
        running(cluster, *ALL) as deps,
        connected(deps, client, namespace, eu=relay.connection) as targets,
    ):
        relay.lose_reply = lose
        for number in range(6):
            await create(client, elected(f"web-{number}", namespace), [*targets.values()])
        for number in range(6):
            await pod_where(client, namespace, f"web-{number}", phase="Running", node=True)
        found = await chaperons(client, namespace)
        parents = [each["metadata"]["annotations"][names.ANNOTATION_PARENT_NAME] for each in found]
        assert sorted(parents) == [f"web-{number}" for number in range(6)]
        assert len(lost) == 2


async def test_pods_that_wait_for_their_binding_come_before_new_ones_of_the_same_priority(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    connection = load(str(cluster.kubeconfig))
    async with (
        running(cluster, ProxyScheduler) as deps,
        connected(deps, client, namespace, eu=connection) as targets,
    ):
        await create(client, elected("begun", namespace), [*targets.values()])
        await until(lambda: deps.chaperons.of((namespace, "begun")))
        scheduler = ProxyScheduler(deps)
        assert scheduler.order((namespace, "begun")) < scheduler.order((namespace, "new"))


async def test_a_pod_claimed_by_a_target_that_went_silent_stays_pinned_until_it_answers(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with (
        Relay.started(load(str(cluster.kubeconfig))) as relay,
        running(cluster, *ALL) as deps,
        connected(deps, client, namespace, eu=relay.connection) as targets,
    ):
        relay.lose_reply = is_post
        relay.freeze(lambda method, path: method == "GET" and path.endswith("/podchaperons"))
        relay.break_streams()
        await create(client, elected("web", namespace), [*targets.values()])
        await until(lambda: chaperons(client, namespace))
        relay.cut()
        assert "the pod is claimed by this target" in await waiting(client, namespace, "web", "claimed")
        pod = await client.get(PODS, "web", namespace)
        assert pod["metadata"]["finalizers"] == [targets["eu"].finalizer]
        assert pod["metadata"]["annotations"][names.ANNOTATION_CLAIM] == targets["eu"].node_name
        assert len(await chaperons(client, namespace)) == 1
        relay.lose_reply = lambda method, path: False
        relay.mend()
        await pod_where(client, namespace, "web", phase="Running", node=targets["eu"].node_name)
        assert len(await chaperons(client, namespace)) == 1


async def test_a_pod_that_no_target_can_place_says_why_and_leaves_one_candidate_pending(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with (
        running(cluster, *ALL) as deps,
        connected(deps, client, namespace, eu=None) as targets,
    ):
        await create(client, elected("web", namespace, affinity=only_on("no-such-node")), [*targets.values()])
        message = await waiting(client, namespace, "web", "nodes are available")
        assert message.startswith("0/1 targets are available: eu: ")
        (chaperon,) = await chaperons(client, namespace)
        assert chaperon["metadata"]["name"].startswith("web-")
        proxy = await client.get(PODS, "web", namespace)
        assert not proxy["spec"].get("nodeName")


async def test_what_changes_while_a_pod_is_told_why_it_waits_is_not_missed(
    cluster: Cluster, client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_cluster = load(str(cluster.kubeconfig))
    async with running(cluster, *ALL) as deps, connected(deps, client, namespace, eu=own_cluster) as targets:
        target = targets["eu"]
        nodes = deps.local.informer(NODES, labels=f"{names.PROVIDER_KEY}={names.PROVIDER_VALUE}")

        def taints() -> list[dict[str, Any]]:
            node = nodes.store.get(("", target.node_name))
            return (node.decode()["spec"].get("taints") or []) if node is not None else []

        async def change(wanted: list[dict[str, Any]]) -> None:
            await client.patch(NODES, target.node_name, {"spec": {"taints": wanted}})
            await until(lambda: len(taints()) == len(wanted))

        # Kubernetes adds another taint to a new node for a moment.
        usual = await until(lambda: taints() if len(taints()) == 1 else [])
        await change([*usual, {"key": "flotilla.test/closed", "effect": "NoSchedule"}])
        tell = ProxyWriter.tell

        async def slowly(self: ProxyWriter, proxy: dict[str, Any], message: str) -> bool:
            if "flotilla.test/closed" in message:
                await change(usual)
            return await tell(self, proxy, message)

        monkeypatch.setattr(ProxyWriter, "tell", slowly)
        await create(client, elected("web", namespace), [target])
        await pod_where(client, namespace, "web", phase="Running", node=target.node_name)


async def test_other_figures_of_the_same_reasons_are_told_a_while_later(
    cluster: Cluster, client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    tell = ProxyWriter.tell_rejections

    async def noting(self: ProxyWriter, proxy: dict[str, Any], message: str, ranking: Ranking, **options: bool) -> Any:
        left = await tell(self, proxy, message, ranking, **options)
        looked.append(message)
        return left

    monkeypatch.setattr(ProxyWriter, "tell_rejections", noting)
    async with running(cluster, *ALL) as deps, connected(deps, client, namespace, eu=None) as targets:

        async def limit(cpu: str) -> None:
            await client.patch(TARGETS, "eu", {"spec": {"limits": {"cpu": cpu}}}, namespace)

        await client.create(TARGETS, of_itself("eu", namespace, self=True, limits={"cpu": "1m"}))
        wanted = {"requests": {"cpu": "1"}}
        containers = [{"name": "main", "image": "busybox", "resources": wanted}]
        await create(client, elected("web", namespace, containers=containers), [*targets.values()])
        await waiting(client, namespace, "web", "(0 of 1m)")
        await limit("2m")
        await until(lambda: any("(0 of 2m)" in message for message in looked))
        assert "(0 of 1m)" in await waiting(client, namespace, "web")
        monkeypatch.setattr(proxy_writer, "FIGURES_SECONDS", 0.0)
        await limit("3m")
        await waiting(client, namespace, "web", "(0 of 3m)")
        monkeypatch.setattr(proxy_writer, "FIGURES_SECONDS", 1.0)
        await limit("4m")
        # Nothing else changes: the scheduler re-checks the pod on its own.
        await waiting(client, namespace, "web", "(0 of 4m)")


async def test_a_candidate_that_no_scheduler_takes_up_is_told_of(
    cluster: Cluster, client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reserve, "Timeouts", functools.partial(Timeouts, silence=1.0))
    async with (
        running(cluster, *ALL, scheduling="reserve") as deps,
        connected(deps, client, namespace, eu=None) as targets,
    ):
        await create(client, elected("web", namespace), [*targets.values()])
        message = await waiting(client, namespace, "web", "no scheduler has reserved a node")
        assert message == f"0/1 targets are available: eu: {NO_SCHEDULER}"


async def test_a_label_of_a_namespace_that_changes_wakes_who_keeps_away_from_its_pods(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async def team(name: str) -> None:
        labels = {names.LABEL_ENABLED: names.ENABLED_VALUE, "team": name}
        await client.patch(NAMESPACES, namespace, {"metadata": {"labels": labels}})

    await team("a")
    async with running(cluster, *ALL) as deps, connected(deps, client, namespace, eu=None) as targets:
        await create(client, elected("db", namespace), [*targets.values()])
        await pod_where(client, namespace, "db", phase="Running")
        term = {
            "topologyKey": names.PROVIDER_KEY,
            "labelSelector": {"matchLabels": {"app": "db"}},
            "namespaceSelector": {"matchLabels": {"team": "a"}},
        }
        apart = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        web = elected("web", namespace)
        constraints = json.dumps({"affinity": {"podAntiAffinity": apart}})
        web["metadata"]["annotations"][names.SHORT_PREFIX + names.PROXY_CONSTRAINTS] = constraints
        await create(client, web, [*targets.values()])
        await waiting(client, namespace, "web", "pod anti-affinity: a pod that it keeps away from is there")
        await team("b")
        await pod_where(client, namespace, "web", phase="Running")


@pytest.mark.parametrize("mode", ["ranked", "reserve"])
async def test_a_pod_of_a_namespace_that_is_not_enabled_says_how_to_enable_it_and_then_goes(
    cluster: Cluster, client: Client, namespace: str, mode: str
) -> None:
    async with running(cluster, *ALL, scheduling=mode) as deps, connected(deps, client, namespace, eu=None) as targets:
        await enable(client, namespace, None)
        await until(lambda: not deps.namespaces.is_enabled(namespace))
        await create(client, elected("web", namespace), [*targets.values()])
        forged = proxy_pod(elected("forged", namespace), [targets["eu"].finalizer])
        claim = {names.ANNOTATION_CLAIM: targets["eu"].node_name}
        forged["metadata"]["annotations"] |= claim | {names.ANNOTATION_CLAIM_UID: "u"} if mode == "reserve" else claim
        await client.create(PODS, forged)
        for name in ("web", "forged"):
            await waiting(
                client, namespace, name, f"kubectl label namespace {namespace} multicluster-scheduler=enabled"
            )
        assert await chaperons(client, namespace) == []
        await enable(client, namespace)
        await until(lambda: _has(client, namespace, 2))


async def _has(client: Client, namespace: str, count: int) -> bool:
    return len(await chaperons(client, namespace)) == count


async def test_without_any_target_the_pod_says_what_to_do(cluster: Cluster, client: Client, namespace: str) -> None:
    async with running(cluster, ProxyScheduler) as deps, connected(deps, client, namespace):
        await create(client, elected("web", namespace), [])
        assert "create a Target in this namespace" in await waiting(client, namespace, "web")


async def test_a_pod_whose_manifest_is_unusable_says_so(cluster: Cluster, client: Client, namespace: str) -> None:
    async with running(cluster, ProxyScheduler) as deps, connected(deps, client, namespace, me=None):
        broken: dict[str, Any] = elected("web", namespace, schedulerName=names.SCHEDULER_PROXY)
        await client.create(PODS, broken)
        assert names.ANNOTATION_MANIFEST in await waiting(client, namespace, "web")


async def test_a_gated_pod_is_not_claimed_before_its_gates_are_open(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, *ALL) as deps, connected(deps, client, namespace, me=None) as targets:
        gated = elected("gated", namespace, schedulingGates=[{"name": "flotilla.test/gate"}])
        await create(client, gated, [*targets.values()])
        await create(client, elected("open", namespace), [*targets.values()])
        await pod_where(client, namespace, "open", phase="Running")
        proxy = await client.get(PODS, "gated", namespace)
        assert names.ANNOTATION_CLAIM not in proxy["metadata"]["annotations"]
        assert [found["kind"] for found in await client.list(CHAPERONS, namespace)] == ["PodChaperon"]


async def test_what_a_queue_writes_into_a_gated_pod_is_part_of_its_delegate(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, *ALL) as deps, connected(deps, client, namespace, me=None) as targets:
        gated = elected("flavoured", namespace, schedulingGates=[{"name": "queue.example.com/admission"}])
        proxy = await create(client, gated, [*targets.values()])
        flavour = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}
        node = {"kubernetes.io/hostname": "test-node-0"}
        admitted = {"nodeSelector": node, "tolerations": [*proxy["spec"]["tolerations"], flavour]}
        await client.patch(PODS, "flavoured", {"spec": admitted}, namespace)
        await client.patch(PODS, "flavoured", {"spec": {"schedulingGates": []}}, namespace)
        await pod_where(client, namespace, "flavoured", phase="Running")
        (chaperon,) = await client.list(CHAPERONS, namespace)
        delegate = await client.get(PODS, chaperon["metadata"]["name"], namespace)
        assert delegate["spec"]["nodeSelector"] == node
        assert flavour in delegate["spec"]["tolerations"]


async def test_field_owners_of_a_claimed_pod_are_tracked_no_longer_unless_somebody_applied_it(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, *ALL) as deps, connected(deps, client, namespace, me=None) as targets:
        await create(client, elected("plain", namespace), [*targets.values()])
        gated = elected("applied", namespace, schedulingGates=[{"name": "flotilla.test/gate"}])
        await create(client, gated, [*targets.values()])
        label = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "applied", "labels": {"by": "hand"}}}
        await client.patch(PODS, "applied", label, namespace, style="apply")
        await client.patch(PODS, "applied", {"spec": {"schedulingGates": []}}, namespace)
        plain = await pod_where(client, namespace, "plain", phase="Running")
        applied = await pod_where(client, namespace, "applied", phase="Running")
        assert not plain["metadata"].get("managedFields")
        assert "Apply" in [owner["operation"] for owner in applied["metadata"]["managedFields"]]
