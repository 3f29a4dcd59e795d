"""Chaperon, feedback and scheduler together, on one real API server that is both source and target."""

import time
from collections.abc import Mapping
from typing import Any

import pytest

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.kinds import CHAPERONS, EVENTS, PODS
from agent.api.names.moves import TARGETS
from agent.base.metrics import REGISTRY
from agent.clusters.target import Target
from agent.kube.client import Client
from agent.kube.config import Connection, load
from agent.kube.errors import Conflict
from agent.pods.chaperon.controller import Chaperon
from agent.pods.feedback.controller import Feedback
from agent.pods.feedback.decide import home_patch
from agent.pods.feedback.view import GONE, MAY_HAVE_RUN, TargetChaperon
from agent.scheduler.controller import ProxyScheduler
from hack.lab.sandbox import Cluster
from tests.controllers import byhand
from tests.controllers.counting import counting_writes
from tests.controllers.proxies import chaperons, connected, create, elected, pod_where
from tests.controllers.starting import running
from tests.e2e.hostile import Hostile
from tests.kube.relay import Relay
from tests.waiting import gone, until

pytestmark = pytest.mark.cluster

ALL = (Chaperon, Feedback, ProxyScheduler)


async def under_way(client: Client, namespace: str, targets: Mapping[str, Target]) -> dict[str, Any]:
    """Run an elected pod `web`; return its chaperon."""
    await create(client, elected("web", namespace), [*targets.values()])
    await pod_where(client, namespace, "web", phase="Running")
    (chaperon,) = await chaperons(client, namespace)
    return chaperon


async def test_a_proxy_pod_shows_what_its_delegate_does_until_both_are_gone(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, *ALL) as deps, connected(deps, client, namespace, me=None) as targets:
        await create(client, elected("web", namespace), [*targets.values()])
        proxy = await pod_where(client, namespace, "web", phase="Running", node=targets["me"].node_name)
        (chaperon,) = await chaperons(client, namespace)
        delegate = await client.get(PODS, chaperon["metadata"]["name"], namespace)
        assert proxy["status"]["podIP"] == delegate["status"]["podIP"]
        assert proxy["metadata"]["finalizers"] == [targets["me"].finalizer]
        assert delegate["spec"]["nodeName"] == "test-node-0"
        await client.patch(PODS, delegate["metadata"]["name"], {"metadata": {"annotations": {"cni": "x"}}}, namespace)

        async def carried() -> bool:
            return (await client.get(PODS, "web", namespace))["metadata"]["annotations"].get("cni") == "x"

        await until(carried)
        await client.delete(PODS, "web", namespace)
        await gone(lambda: client.get(PODS, "web", namespace))
        assert await chaperons(client, namespace) == []
        assert await client.list(PODS, namespace) == []


async def test_a_proxy_pod_deleted_with_a_grace_period_goes_too(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, *ALL) as deps, connected(deps, client, namespace, me=None) as targets:
        await create(client, elected("web", namespace), [*targets.values()])
        await pod_where(client, namespace, "web", phase="Running")
        await client.delete(PODS, "web", namespace, grace=30)
        await gone(lambda: client.get(PODS, "web", namespace))
        assert await client.list(PODS, namespace) == []


async def test_why_a_pod_is_evicted_survives_a_status_that_comes_home_at_that_moment(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, *ALL) as deps, connected(deps, client, namespace, me=None) as targets:
        chaperon = await under_way(client, namespace, targets)
        before = await client.get(PODS, "web", namespace)
        why = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        told = {"status": {"conditions": [*before["status"]["conditions"], why]}}
        await client.patch(PODS, "web", told, namespace, sub="status")
        unready = {**chaperon["status"], "conditions": [{"type": "Ready", "status": "False"}]}
        delegate = TargetChaperon(targets["me"].finalizer, {**chaperon, "status": unready})
        with pytest.raises(Conflict):
            await deps.proxies.bring_home((namespace, "web"), home_patch(before, delegate), status=True)

        async def brought() -> dict[str, Any]:
            now = await client.get(PODS, "web", namespace)
            assert find_condition(now["status"]["conditions"], "DisruptionTarget")
            later = await deps.proxies.bring_home((namespace, "web"), home_patch(now, delegate), status=True)
            return later.decode()

        # The feedback controller may write between read and update.
        later = await until(brought, forgiven=Conflict)
        assert find_condition(later["status"]["conditions"], "DisruptionTarget")


async def test_a_proxy_pod_whose_chaperon_is_deleted_by_hand_goes(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, *ALL) as deps, connected(deps, client, namespace, me=None) as targets:
        chaperon = await under_way(client, namespace, targets)
        await client.delete(CHAPERONS, chaperon["metadata"]["name"], namespace)
        await gone(lambda: client.get(PODS, "web", namespace))


async def test_a_delegate_lost_in_the_target_ends_chaperon_and_proxy_pod(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, *ALL) as deps, connected(deps, client, namespace, me=None) as targets:
        chaperon = await under_way(client, namespace, targets)
        await client.delete(PODS, chaperon["metadata"]["name"], namespace, grace=0)
        await gone(lambda: client.get(PODS, "web", namespace))
        assert await chaperons(client, namespace) == []
        await says_lost(client, namespace, GONE)


async def says_lost(client: Client, namespace: str, why: str) -> None:
    """Wait until an Event of `web` reports why it was deleted."""

    async def said() -> bool:
        events = await client.list(EVENTS, namespace, fields="involvedObject.name=web,reason=DelegateLost")
        return any(why in event["message"] for event in events)

    await until(said)


async def test_a_delegate_that_must_not_run_twice_and_may_have_been_made_by_an_agent_that_died_is_not_made(
    cluster: Cluster, client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(cluster, Feedback, ProxyScheduler) as deps, connected(deps, client, namespace, me=None) as to:
        await create(client, elected("web", namespace, restartPolicy="Never"), [*to.values()])
        (chaperon,) = await until(lambda: chaperons(client, namespace))
        name, record = chaperon["metadata"]["name"], {names.ANNOTATION_POD_MADE: "an agent that died"}
        await client.patch(CHAPERONS, name, {"metadata": {"annotations": record}}, namespace)
        writes = counting_writes(monkeypatch)
        async with running(cluster, Chaperon):
            await gone(lambda: client.get(PODS, "web", namespace))
            await gone(lambda: client.get(CHAPERONS, name, namespace))
        assert ("create_raw", PODS.name) not in writes
        await says_lost(client, namespace, MAY_HAVE_RUN)


async def test_a_candidate_that_waits_for_a_node_and_is_deleted_in_the_target_is_made_again(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    """The pod may belong to a Job: its target would not recreate it."""
    async with running(cluster, *ALL) as deps, connected(deps, client, namespace, me=None) as targets:
        waits = elected("web", namespace, restartPolicy="Never", nodeSelector={"flotilla.test/no": "node"})
        await create(client, waits, [*targets.values()])

        async def pending() -> str:
            for each in await chaperons(client, namespace):
                if each.get("status", {}).get("conditions"):
                    pod = await client.get(PODS, each["metadata"]["name"], namespace)
                    return str(pod["metadata"]["uid"])
            return ""

        first = await until(pending)
        (chaperon,) = await chaperons(client, namespace)
        await client.delete(PODS, chaperon["metadata"]["name"], namespace, grace=0)

        async def another() -> bool:
            return await pending() not in ("", first)

        await until(another)


async def test_a_delegate_that_takes_long_to_end_does_not_keep_its_proxy_pod_from_being_replaced(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    """On a lost node the delegate never ends."""
    async with running(cluster, *ALL) as deps, connected(deps, client, namespace, me=None) as targets:
        chaperon = await under_way(client, namespace, targets)
        name = chaperon["metadata"]["name"]
        await client.patch(PODS, name, {"metadata": {"finalizers": ["flotilla.test/lost-node"]}}, namespace)
        await client.delete(PODS, name, namespace)

        async def terminating() -> bool:
            return "deletionTimestamp" in (await client.get(PODS, "web", namespace))["metadata"]

        await until(terminating)
        await client.get(PODS, name, namespace)
        await client.patch(PODS, name, {"metadata": {"finalizers": None}}, namespace)
        await gone(lambda: client.get(PODS, "web", namespace))


async def test_a_deleted_pod_that_somebody_else_holds_has_failed_when_its_delegate_is_gone(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    """A Job with a pod failure policy keeps a finalizer on its pods until they have failed."""
    async with running(cluster, *ALL) as deps, connected(deps, client, namespace, me=None) as targets:
        pod = elected("web", namespace)
        pod["metadata"]["finalizers"] = ["flotilla.test/hold"]
        await create(client, pod, [*targets.values()])
        await pod_where(client, namespace, "web", phase="Running")
        await client.delete(PODS, "web", namespace)
        proxy = await pod_where(client, namespace, "web", phase="Failed")
        assert proxy["metadata"]["finalizers"] == ["flotilla.test/hold"]
        assert await chaperons(client, namespace) == []
        await client.patch(PODS, "web", {"metadata": {"finalizers": None}}, namespace)
        await gone(lambda: client.get(PODS, "web", namespace))


async def test_an_orphan_of_ours_goes_and_that_of_a_cluster_of_the_same_name_stays(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, Feedback) as deps, connected(deps, client, namespace, me=None):
        for name, uid in {"ours": deps.cluster_uid, "theirs": "another-uid"}.items():
            labels = {
                names.LABEL_PARENT_UID: "gone",
                names.LABEL_PARENT_CLUSTER_NAME: "here",
                names.LABEL_PARENT_CLUSTER_UID: uid,
            }
            metadata = {"name": name, "labels": labels}
            await client.create(CHAPERONS, {"metadata": metadata, "spec": {"containers": []}} | _HEAD, namespace)
        await gone(lambda: client.get(CHAPERONS, "ours", namespace))
        assert [each["metadata"]["name"] for each in await chaperons(client, namespace)] == ["theirs"]


async def test_what_is_an_orphan_by_an_old_store_is_asked_for_and_stays(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, *ALL) as deps, connected(deps, client, namespace, me=None) as targets:
        chaperon = await under_way(client, namespace, targets)
        name = chaperon["metadata"]["name"]
        asked = questions()
        # The cache of a process that was suspended while the pod was created.
        proxies = deps.proxies.informer

        async def is_asked_for() -> bool:
            # The event of its last write may arrive only now, and restore the entry.
            proxies.store.remove((namespace, "web"))
            change = {"metadata": {"annotations": {"any": str(time.monotonic())}}}
            await client.patch(CHAPERONS, name, change, namespace)
            return questions() > asked

        await until(is_asked_for)
        await pod_where(client, namespace, "web", phase="Running")
        assert [each["metadata"]["uid"] for each in await chaperons(client, namespace)] == [chaperon["metadata"]["uid"]]
        # The next event of the pod corrects the cache.
        await client.patch(PODS, "web", {"metadata": {"annotations": {"any": "change"}}}, namespace)
        await client.delete(PODS, "web", namespace)
        await gone(lambda: client.get(PODS, "web", namespace))


def questions() -> float:
    """Return the number of successful requests for pods in the local cluster."""
    labels = {"cluster": "local", "method": "GET", "resource": "pods", "outcome": "200"}
    return REGISTRY.get_sample_value("flotilla_api_requests_total", labels) or 0.0


def are_stuck(hostile: Hostile) -> bool:
    """Return whether the workers for orphans wait for responses, while many orphans are queued."""
    asked = sum(name.startswith("c") and name[1:].isdecimal() for name in hostile.told)
    waiting = REGISTRY.get_sample_value("flotilla_queue_depth", {"controller": "strays"}) or 0.0
    return asked > 10 and waiting > 300


async def test_a_target_full_of_orphans_that_it_does_not_let_go_keeps_no_pod_waiting(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, *ALL) as deps:
        narrow = Hostile.started("127.0.0.1", namespace, bandwidth=1e6, owner=deps.cluster_uid)
        async with (
            narrow as hostile,
            connected(deps, client, namespace, me=None, hostile=Connection(hostile.server)) as targets,
        ):
            # Not the number of requested deletions: each worker waits ten seconds, longer on a busy machine, and
            # the queue grows meanwhile.
            await until(lambda: are_stuck(hostile), 60)
            pod = elected("web", namespace)
            # Otherwise the hostile target may get the claim permanently: it neither accepts nor rejects its
            # chaperon.
            pod["metadata"]["annotations"][names.SHORT_PREFIX + TARGETS] = "me"
            await create(client, pod, [targets["me"]])
            # On a busy machine the process that is queried for hundreds of orphans delays everything.
            await pod_where(client, namespace, "web", seconds=60, phase="Running", node=targets["me"].node_name)
            await client.delete(PODS, "web", namespace)
            await gone(lambda: client.get(PODS, "web", namespace))


_HEAD = {"apiVersion": CHAPERONS.api_version, "kind": CHAPERONS.name}


async def test_while_a_target_is_away_its_pods_stay_as_they_are_and_a_deleted_one_waits(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with (
        Relay.started(load(str(cluster.kubeconfig))) as relay,
        running(cluster, *ALL) as deps,
        connected(deps, client, namespace, eu=relay.connection) as targets,
    ):
        for name in ("stays", "goes"):
            await create(client, elected(name, namespace), [*targets.values()])
        for name in ("stays", "goes"):
            await pod_where(client, namespace, name, phase="Running")
        relay.cut()
        await until(lambda: _is(not targets["eu"].ready))
        await client.delete(PODS, "goes", namespace)
        of = {
            chaperon["metadata"]["annotations"][names.ANNOTATION_PARENT_NAME]: chaperon["metadata"]["name"]
            for chaperon in await chaperons(client, namespace)
        }
        annotation = {"metadata": {"annotations": {"while": "away"}}}
        await client.patch(PODS, of["stays"], annotation, namespace)
        assert (await client.get(PODS, "stays", namespace))["status"]["phase"] == "Running"
        assert (await client.get(PODS, "goes", namespace))["metadata"]["finalizers"] == [targets["eu"].finalizer]
        relay.mend()
        await gone(lambda: client.get(PODS, "goes", namespace))

        async def caught_up() -> bool:
            return "while" in (await client.get(PODS, "stays", namespace))["metadata"]["annotations"]

        await until(caught_up)
        assert len(await chaperons(client, namespace)) == 1


async def done_once(client: Client, namespace: str, target: Target, **metadata: Any) -> str:
    """Run an elected pod `web` with restartPolicy Never, as a kubelet reports it; return its delegate's name."""
    pod = elected("web", namespace, restartPolicy="Never", **byhand.NOBODYS)
    pod["metadata"] |= metadata
    await create(client, pod, [target])
    (chaperon,) = await until(lambda: chaperons(client, namespace))
    name: str = chaperon["metadata"]["name"]
    await byhand.start(client, namespace, name)
    await pod_where(client, namespace, "web", phase="Running", node=True)
    return name


async def told_of(client: Client, namespace: str, name: str, phase: str) -> None:
    """Wait until a chaperon has this phase."""

    async def tells() -> bool:
        return bool((await client.get(CHAPERONS, name, namespace))["status"]["phase"] == phase)

    await until(tells)


@pytest.mark.parametrize("removed", ["the delegate", "the chaperon"])
async def test_work_that_was_done_while_the_link_was_down_is_done_though_its_delegate_was_removed(
    cluster: Cluster, client: Client, namespace: str, removed: str
) -> None:
    async with (
        Relay.started(load(str(cluster.kubeconfig))) as relay,
        running(cluster, *ALL) as deps,
        connected(deps, client, namespace, eu=relay.connection) as targets,
    ):
        name = await done_once(client, namespace, targets["eu"])
        relay.cut()
        await until(lambda: _is(not targets["eu"].ready))
        await byhand.say(client, namespace, name, "Succeeded", 0)
        await told_of(client, namespace, name, "Succeeded")
        if removed == "the delegate":
            await byhand.remove(client, namespace, name)

            async def missing() -> bool:
                found = await client.get(CHAPERONS, name, namespace)
                return names.ANNOTATION_POD_MISSING_SINCE in found["metadata"]["annotations"]

            await until(missing)
        else:
            await client.delete(CHAPERONS, name, namespace)
            await gone(lambda: client.get(CHAPERONS, name, namespace))
        relay.mend()
        proxy = await pod_where(client, namespace, "web", phase="Succeeded")
        assert proxy["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
        # The pod was reconciled once the next pod has been created and deleted.
        await create(client, elected("later", namespace), [targets["eu"]])
        await pod_where(client, namespace, "later", phase="Running")
        await client.delete(PODS, "later", namespace)
        await gone(lambda: client.get(PODS, "later", namespace))
        after = await client.get(PODS, "web", namespace)
        assert "deletionTimestamp" not in after["metadata"]
        assert [each["metadata"]["name"] for each in await chaperons(client, namespace)] == (
            [name] if removed == "the delegate" else []
        )
        await client.delete(PODS, "web", namespace)
        await gone(lambda: client.get(PODS, "web", namespace))
        assert await chaperons(client, namespace) == []


@pytest.mark.parametrize(("phase", "code"), [("Succeeded", 0), ("Failed", 3)])
async def test_a_deleted_pod_that_somebody_else_holds_tells_how_its_delegate_ended(
    cluster: Cluster, client: Client, namespace: str, phase: str, code: int
) -> None:
    async with running(cluster, *ALL) as deps, connected(deps, client, namespace, me=None) as targets:
        name = await done_once(client, namespace, targets["me"], finalizers=["flotilla.test/hold"])
        await client.delete(PODS, "web", namespace)

        async def ends() -> bool:
            return "deletionTimestamp" in (await client.get(PODS, name, namespace))["metadata"]

        await until(ends)
        await byhand.say(client, namespace, name, phase, code)
        proxy = await pod_where(client, namespace, "web", phase=phase)
        assert proxy["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == code
        await byhand.remove(client, namespace, name)

        async def released() -> bool:
            return (await client.get(PODS, "web", namespace))["metadata"]["finalizers"] == ["flotilla.test/hold"]

        await until(released)
        assert (await client.get(PODS, "web", namespace))["status"] == proxy["status"]
        await client.patch(PODS, "web", {"metadata": {"finalizers": None}}, namespace)
        await gone(lambda: client.get(PODS, "web", namespace))


async def test_a_pod_deleted_while_its_target_was_away_tells_how_its_delegate_had_ended(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with (
        Relay.started(load(str(cluster.kubeconfig))) as relay,
        running(cluster, *ALL) as deps,
        connected(deps, client, namespace, eu=relay.connection) as targets,
    ):
        name = await done_once(client, namespace, targets["eu"], finalizers=["flotilla.test/hold"])
        relay.cut()
        await until(lambda: _is(not targets["eu"].ready))
        await client.delete(PODS, "web", namespace)
        await byhand.say(client, namespace, name, "Succeeded", 0)
        await told_of(client, namespace, name, "Succeeded")
        relay.mend()
        await gone(lambda: client.get(CHAPERONS, name, namespace))

        async def released() -> bool:
            return (await client.get(PODS, "web", namespace))["metadata"]["finalizers"] == ["flotilla.test/hold"]

        await until(released)
        assert (await client.get(PODS, "web", namespace))["status"]["phase"] == "Succeeded"
        await client.patch(PODS, "web", {"metadata": {"finalizers": None}}, namespace)
        await gone(lambda: client.get(PODS, "web", namespace))


async def _is(value: bool) -> bool:
    return value
