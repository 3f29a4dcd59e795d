"""The controller that creates delegates, on a real API server whose fake node runs them."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, EVENTS, PODS, SERVICE_ACCOUNTS, SOURCES
from agent.kube.client import Client
from agent.kube.config import load
from agent.kube.errors import NotFound
from agent.pods.chaperon import delegate_memory, policies, refusals
from agent.pods.chaperon.controller import Chaperon
from hack.lab.sandbox import Cluster
from tests.controllers import byhand
from tests.controllers.starting import running
from tests.controllers.target_links import kubeconfig
from tests.e2e.faults.refusals import dead_webhook
from tests.kube.relay import Relay
from tests.waiting import gone, until

pytestmark = pytest.mark.cluster


def chaperon(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": CHAPERONS.api_version,
        "kind": CHAPERONS.name,
        "metadata": {"name": name, "labels": {names.LABEL_PARENT_UID: "P"}, "annotations": {"team": "x"}},
        "spec": {"containers": [{"name": "main", "image": "busybox"}], **spec},
    }


async def status(client: Client, namespace: str, name: str, **wanted: Any) -> dict[str, Any]:
    async def probe() -> dict[str, Any] | None:
        found = await client.get(CHAPERONS, name, namespace)
        return found if wanted.items() <= found.get("status", {}).items() else None

    return await until(probe)


async def test_a_chaperon_gets_its_pod_and_shows_how_it_fares(cluster: Cluster, client: Client, namespace: str) -> None:
    async with running(cluster, Chaperon):
        made = await client.create(CHAPERONS, chaperon("web"), namespace)
        told = await status(client, namespace, "web", phase="Running")
        pod = await client.get(PODS, "web", namespace)
    (owner,) = pod["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (made["metadata"]["uid"], True)
    assert pod["metadata"]["annotations"]["team"] == "x"
    assert told["status"]["podIP"] == pod["status"]["podIP"]


async def test_what_the_targets_pod_is_annotated_with_comes_to_the_chaperon(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, Chaperon):
        await client.create(CHAPERONS, chaperon("web"), namespace)
        await status(client, namespace, "web", phase="Running")
        await client.patch(PODS, "web", {"metadata": {"annotations": {"cni": "ip", "team": None}}}, namespace)

        async def carried() -> bool:
            annotations = (await client.get(CHAPERONS, "web", namespace))["metadata"].get("annotations", {})
            return annotations.get("cni") == "ip" and "team" not in annotations

        await until(carried)


async def test_a_lost_pod_is_noted_and_after_its_time_made_again(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, Chaperon, pod_missing=1.5):
        await client.create(CHAPERONS, chaperon("web"), namespace)
        await status(client, namespace, "web", phase="Running")
        first = await client.get(PODS, "web", namespace)
        await client.delete(PODS, "web", namespace, grace=0)

        async def noted() -> bool:
            found = await client.get(CHAPERONS, "web", namespace)
            return names.ANNOTATION_POD_MISSING_SINCE in found["metadata"]["annotations"]

        await until(noted)

        async def made_again() -> bool:
            return bool((await client.get(PODS, "web", namespace))["metadata"]["uid"] != first["metadata"]["uid"])

        await until(made_again)

        async def forgotten() -> bool:
            return not await noted()

        await until(forgotten)


async def test_a_foreign_pod_in_the_way_is_left_alone_and_reported(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    foreign = {"metadata": {"name": "web"}, "spec": chaperon("web")["spec"]}
    before = await client.create(PODS, foreign, namespace)
    async with running(cluster, Chaperon):
        await client.create(CHAPERONS, chaperon("web"), namespace)

        async def refusal() -> str | None:
            conditions = (await client.get(CHAPERONS, "web", namespace)).get("status", {}).get("conditions", [])
            return next((each["message"] for each in conditions if each["reason"] == "Refused"), None)

        assert await until(refusal) == 'resource "web" already exists and is not managed by PodChaperon'

        async def told() -> bool:
            return any(event["reason"] == "ErrResourceExists" for event in await client.list(EVENTS, namespace))

        await until(told)
        after = await client.get(PODS, "web", namespace)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert "ownerReferences" not in after["metadata"]


async def test_a_pod_that_the_server_refuses_is_told_and_made_once_it_is_let(
    cluster: Cluster, client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.pods.chaperon.controller._REFUSED_SECONDS", 0.3)
    async with running(cluster, Chaperon):
        await client.create(CHAPERONS, chaperon("web", serviceAccountName="later"), namespace)

        async def refusal() -> str | None:
            conditions = (await client.get(CHAPERONS, "web", namespace)).get("status", {}).get("conditions", [])
            return next((each["message"] for each in conditions if each["reason"] == "Refused"), None)

        assert "later" in (await until(refusal) or "")
        with pytest.raises(NotFound):
            await client.get(PODS, "web", namespace)
        await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "later"}}, namespace)
        told = await status(client, namespace, "web", phase="Running")
    assert all(each.get("reason") != "Refused" for each in told["status"]["conditions"])


async def test_a_pod_that_cannot_be_created_for_a_while_is_told_and_the_refusal_is_withdrawn_by_its_creation(
    cluster: Cluster, client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delegate_memory, "LASTING_SECONDS", 1.0)
    monkeypatch.setattr(delegate_memory, "LEAST_SECONDS", 0.3)
    monkeypatch.setattr(delegate_memory, "MOST_SECONDS", 0.3)
    async with running(cluster, Chaperon):
        async with dead_webhook(client, PODS, namespace) as webhook:
            # No scheduler handles it, so that its status stays empty.
            await client.create(CHAPERONS, chaperon("web", schedulerName="nobody"), namespace)

            async def refusal() -> dict[str, str]:
                conditions = (await client.get(CHAPERONS, "web", namespace)).get("status", {}).get("conditions", [])
                return {each["type"]: each["message"] for each in conditions if each["status"] == "False"}

            told = await until(refusal)
            assert webhook in told["PodScheduled"]
            assert told["PodScheduled"].startswith("cannot create pod for pod chaperon: ")
            assert "multicluster/PodsCreated" in told
            with pytest.raises(NotFound):
                await client.get(PODS, "web", namespace)
        await until(lambda: client.get(PODS, "web", namespace))

        async def withdrawn() -> bool:
            return not await refusal()

        await until(withdrawn)


async def test_a_candidate_that_no_scheduler_is_for_is_told_to_whoever_sent_it(
    cluster: Cluster, client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "UNSCHEDULED_SECONDS", 2.0)
    async with running(cluster, Chaperon, candidate_scheduler=False):
        for name, scheduler in (("web", names.SCHEDULER_CANDIDATE), ("other", "nobody")):
            await client.create(CHAPERONS, chaperon(name, schedulerName=scheduler), namespace)

        async def unschedulable() -> str:
            conditions = (await client.get(CHAPERONS, "web", namespace)).get("status", {}).get("conditions", [])
            return next((each["message"] for each in conditions if each.get("reason") == "Unschedulable"), "")

        assert await until(unschedulable) == refusals.NO_SCHEDULER

        async def warned() -> bool:
            about = "involvedObject.kind=Pod,involvedObject.name=web,reason=NoScheduler"
            return bool(await client.list(EVENTS, namespace, fields=about))

        await until(warned)
        assert not (await client.get(CHAPERONS, "other", namespace)).get("status")
        full = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}
        await client.patch(PODS, "web", {"status": {"conditions": [full]}}, namespace, sub="status")

        async def own_words() -> bool:
            return await unschedulable() == "full"

        await until(own_words)


async def test_a_change_that_the_server_refuses_is_told_on_the_pod_and_its_status_goes_on(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    entry = {"name": "debugger", "image": "busybox", "targetContainerName": "nobody"}
    meant = {names.ANNOTATION_LIVE_CHANGES: json.dumps({"ephemeralContainers": [entry]})}
    async with running(cluster, Chaperon):
        await client.create(CHAPERONS, chaperon("web"), namespace)
        await status(client, namespace, "web", phase="Running")
        await client.patch(CHAPERONS, "web", {"metadata": {"annotations": meant}}, namespace)

        async def told() -> bool:
            about = "involvedObject.kind=Pod,involvedObject.name=web,reason=FailedUpdate"
            events = await client.list(EVENTS, namespace, fields=about)
            return any("targetContainerName" in event["message"] for event in events)

        await until(told)
        await client.patch(PODS, "web", {"status": {"message": "still here"}}, namespace, sub="status")
        await status(client, namespace, "web", message="still here")


async def test_a_chaperon_deleted_in_the_foreground_outlives_its_pod(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, Chaperon):
        await client.create(CHAPERONS, chaperon("web"), namespace)
        await status(client, namespace, "web", phase="Running")
        hold = {"metadata": {"finalizers": ["flotilla.test/hold"]}}
        await client.patch(PODS, "web", hold, namespace)
        await client.delete(CHAPERONS, "web", namespace, propagation="Foreground")

        async def ending() -> bool:
            return "deletionTimestamp" in (await client.get(PODS, "web", namespace))["metadata"]

        await until(ending)
        assert "deletionTimestamp" in (await client.get(CHAPERONS, "web", namespace))["metadata"]
        await client.patch(PODS, "web", {"metadata": {"finalizers": None}}, namespace)
        await gone(lambda: client.get(CHAPERONS, "web", namespace))
        with pytest.raises(NotFound):
            await client.get(PODS, "web", namespace)


@pytest.mark.parametrize(("phase", "code"), [("Succeeded", 0), ("Failed", 3)])
async def test_how_a_delegate_ends_is_told_while_its_chaperon_is_being_deleted(
    cluster: Cluster, client: Client, namespace: str, phase: str, code: int
) -> None:
    async with running(cluster, Chaperon):
        await client.create(CHAPERONS, chaperon("web", restartPolicy="Never", **byhand.NOBODYS), namespace)
        await byhand.start(client, namespace, "web")
        await status(client, namespace, "web", phase="Running")
        await client.delete(CHAPERONS, "web", namespace, propagation="Foreground")

        async def ending() -> bool:
            return "deletionTimestamp" in (await client.get(PODS, "web", namespace))["metadata"]

        await until(ending)
        await byhand.say(client, namespace, "web", phase, code)
        told = await status(client, namespace, "web", phase=phase)
        assert told["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == code
        await byhand.remove(client, namespace, "web")
        await gone(lambda: client.get(CHAPERONS, "web", namespace))


@pytest.mark.parametrize("ran", [True, False], ids=["it was told that it ran", "nothing was told of it"])
async def test_how_a_delegate_ended_is_told_though_it_is_gone_when_the_agent_hears_of_it(
    cluster: Cluster, client: Client, namespace: str, tmp_path: Path, ran: bool
) -> None:
    """The agent's link to its own API server is down meanwhile: the watch then reports the end and the deletion
    together."""
    async with Relay.started(load(str(cluster.kubeconfig))) as relay:
        through = copy.copy(cluster)
        through.kubeconfig = tmp_path / "kubeconfig"
        through.kubeconfig.write_text(kubeconfig(cluster, server=relay.connection.server, user={}))
        async with running(through, Chaperon):
            await client.create(CHAPERONS, chaperon("web", restartPolicy="Never", **byhand.NOBODYS), namespace)
            if ran:
                await byhand.start(client, namespace, "web")
                await status(client, namespace, "web", phase="Running")
            first = await until(lambda: client.get(PODS, "web", namespace))
            relay.cut()
            if not ran:
                await byhand.start(client, namespace, "web")
            await byhand.say(client, namespace, "web", "Succeeded", 0)
            await byhand.remove(client, namespace, "web")
            await gone(lambda: client.get(PODS, "web", namespace))
            relay.mend()
            told = await status(client, namespace, "web", phase="Succeeded")
            assert told["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0

            async def said_to_be_missing() -> bool:
                found = await client.get(CHAPERONS, "web", namespace)
                return names.ANNOTATION_POD_MISSING_SINCE in found["metadata"]["annotations"]

            await until(said_to_be_missing)
            pods = await client.list(PODS, namespace)
            assert pods == [], f"{first['metadata']['uid']} had done the work"


async def test_the_node_of_a_delegate_is_told_though_its_kubelet_says_nothing(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, Chaperon):
        await client.create(CHAPERONS, chaperon("web", schedulerName="nobody"), namespace)
        await until(lambda: client.get(PODS, "web", namespace))
        await byhand.bind(client, namespace, "web")
        told = await status(client, namespace, "web", phase="Pending")
    assert told["status"]["conditions"][0]["type"] == "PodScheduled"
    assert told["status"]["conditions"][0]["status"] == "True"


def source(policy: dict[str, Any]) -> dict[str, Any]:
    spec = {"userName": "cd", "policy": policy}
    return {"apiVersion": SOURCES.api_version, "kind": "Source", "metadata": {"name": "cd"}, "spec": spec}


async def within_policy(client: Client, namespace: str, name: str) -> str:
    """Return the message of a chaperon that a policy refuses; empty if none refuses it."""
    conditions = (await client.get(CHAPERONS, name, namespace)).get("status", {}).get("conditions") or ()
    found = {each["type"]: each["message"] for each in conditions}
    return found.get("PodScheduled", "") if "multicluster/WithinPolicy" in found else ""


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_what_a_policy_has_refused_stays_refused_without_its_source_and_runs_once_that_allows_it(
    cluster: Cluster, client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, "LINGER_SECONDS", 0.2)
    async with running(cluster, Chaperon) as deps:
        await client.create(SOURCES, source({"hostNamespaces": False}), namespace)
        sources = deps.local.informer(SOURCES).store
        await until(lambda: sources.get((namespace, "cd")))
        await client.create(CHAPERONS, chaperon("web", hostNetwork=True), namespace)
        assert "spec.policy.hostNamespaces" in await until(lambda: within_policy(client, namespace, "web"))
        await client.delete(SOURCES, "cd", namespace)

        async def says_gone() -> bool:
            return "it is gone" in await within_policy(client, namespace, "web")

        await until(says_gone)
        with pytest.raises(NotFound):
            await client.get(PODS, "web", namespace)
        await client.create(SOURCES, source({"hostNamespaces": True}), namespace)
        await status(client, namespace, "web", phase="Running")


async def test_a_source_that_is_gone_keeps_its_policy_for_as_long_as_its_rights_may_last(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, Chaperon) as deps:
        await client.create(SOURCES, source({"hostNamespaces": False}), namespace)
        sources = deps.local.informer(SOURCES).store
        await until(lambda: sources.get((namespace, "cd")))
        await client.delete(SOURCES, "cd", namespace)
        await until(lambda: sources.get((namespace, "cd")) is None)
        await client.create(CHAPERONS, chaperon("web", hostNetwork=True), namespace)
        await until(lambda: within_policy(client, namespace, "web"))
