"""Promise 68: a user moves pods with one command, follows the progress, and learns why a pod stays."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from agent.api.kinds import NAMESPACES, NODES, PODS, TARGETS
from agent.api.names import SHORT_PREFIX, virtual_node
from agent.cli.moving.objects import object_names
from tests.cli.command import Told, flotilla
from tests.e2e import manifests
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS, STATEFULSETS
from tests.e2e.test_63_mover import in_target, send, told

Raw = dict[str, Any]

KEY = SHORT_PREFIX + "targets"


async def run(fleet: Fleet, namespace: str, *words: str) -> Told:
    """Run a verb of the command in a namespace. Return exit code, output and errors."""
    return await flotilla(*words, "-n", namespace, "--kubeconfig", str(fleet.sandbox["cd"].kubeconfig))


async def read(fleet: Fleet, namespace: str, *words: str) -> Raw:
    """Return the command's JSON output."""
    code, output, errors = await run(fleet, namespace, *words, "-o", "json")
    assert code == 0, errors
    found: Raw = json.loads(output)
    return found


async def says(fleet: Fleet, namespace: str) -> str | None:
    """Return the Deployment's targets annotation, or None."""
    found = await fleet.source.get(DEPLOYMENTS, "web", namespace)
    value: str | None = found["metadata"]["annotations"].get(KEY)
    return value


@contextlib.asynccontextmanager
async def closed(fleet: Fleet, namespace: str, target: str) -> AsyncIterator[None]:
    """Cordon a target's virtual node for the duration of the context."""
    node = virtual_node(namespace, target)
    await fleet.source.patch(NODES, node, {"spec": {"unschedulable": True}})
    try:
        yield
    finally:
        await fleet.source.patch(NODES, node, {"spec": {"unschedulable": None}})


async def test_a_deployment_is_moved_by_one_command_which_says_before_what_comes_of_it(
    fleet: Fleet, namespace: str
) -> None:
    await send(fleet, namespace, "eu")
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 2), namespace)
    pods = await in_target(fleet, namespace, "eu", 2)
    would = await read(fleet, namespace, "move", "deploy/web", "--to", "us", "--dry-run")
    fates = {each["pod"]: (each["source"], each["to"], each["moves"], each["how"]) for each in would["pods"]}
    assert fates == {pod["metadata"]["name"]: ("eu", ["us"], True, "its replacement first") for pod in pods}
    assert await says(fleet, namespace) is None
    code, output, errors = await run(fleet, namespace, "move", "deployment/web", "--to", "us", "--wait")
    assert (code, errors) == (0, "")
    lines = output.splitlines()
    assert lines[0] == "multicluster/targets of Deployment web is 'us' (was not there)"
    assert lines[-1] == "2 of 2 pods are where they should be"
    await in_target(fleet, namespace, "us", 2)
    # Pods already in the target stay; repeating the command changes nothing.
    code, output, _ = await run(fleet, namespace, "move", "deployment/web", "--to", "us", "--wait")
    assert (code, output.splitlines()[0]) == (0, "multicluster/targets of Deployment web is 'us' already")
    assert "Placed: it is where it may be: multicluster/targets of Deployment web (us)" in output
    assert (await read(fleet, namespace, "moves"))["moves"] == []
    typed = SimpleNamespace(params={"kubeconfig": str(fleet.sandbox["cd"].kubeconfig), "namespace": namespace})
    assert await asyncio.to_thread(object_names, typed, "deploy/w") == ["deploy/web"]
    await refused_where_the_agent_may_not_read(fleet, namespace)


async def refused_where_the_agent_may_not_read(fleet: Fleet, namespace: str) -> None:
    """Simulate an agent whose service account has no rights."""
    agent = manifests.deployment("agent", 0, serviceAccountName="nobody")
    agent["metadata"]["labels"] = {"app.kubernetes.io/name": "flotilla", "app.kubernetes.io/component": "agent"}
    await fleet.source.create(DEPLOYMENTS, agent, namespace)
    code, output, errors = await run(fleet, namespace, "move", "deployment/web", "--to", "eu", "--wait")
    assert (code, output) == (1, "")
    assert f"the agent (service account {namespace}/nobody) may not read cronjobs.batch, deployments.apps" in errors
    assert "Nothing was changed" in errors
    assert await says(fleet, namespace) == "us"


@pytest.mark.full("A variant of the command that moves a Deployment.")
async def test_what_cannot_move_ends_the_wait_with_the_reason_and_ctrl_c_ends_the_wait_alone(
    fleet: Fleet, namespace: str
) -> None:
    await send(fleet, namespace, "eu")
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 1), namespace)
    await in_target(fleet, namespace, "eu", 1)
    async with closed(fleet, namespace, "us"):
        words = ("move", f"ns/{namespace}", "--to", "us > mars", "--wait", "--stuck-after", "3s")
        code, output, errors = await run(fleet, namespace, *words)
        assert code == 1
        assert "nothing has happened for 3 s: 0 of 1 pods are where they should be" in errors
        assert "NoRoom: its target eu is not in multicluster/targets" in errors
        assert "is called mars (there is: eu, us" in errors
        assert "no     NoRoom: its replacement first, but 0/1 targets are available: us: " in output
        await told(fleet, namespace, "NoRoom")
        (line,) = (await read(fleet, namespace, "moves"))["moves"]
        assert (line["source"], line["to"], line["cause"], line["phase"]) == ("eu", "", "Targets", "NoRoom")
        code, output, _ = await run(fleet, namespace, "explain", "pod", line["pod"])
        assert code == 0
        assert f"{line['replacement']} replaces it in no target yet" in output
        assert "multicluster/targets of namespace" in output
        await interrupted(fleet, namespace)
    await in_target(fleet, namespace, "us", 1)


async def interrupted(fleet: Fleet, namespace: str) -> None:
    """Run the command that waits, and press Ctrl-C."""
    words = ("move", f"namespace/{namespace}", "--to", "us", "--wait", "-n", namespace)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agent.cli", *words, "--kubeconfig", str(fleet.sandbox["cd"].kubeconfig)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(os.environ),
    )
    assert process.stdout is not None
    while b"NoRoom" not in (line := await process.stdout.readline()):
        assert line
    process.send_signal(signal.SIGINT)
    _, errors = await process.communicate()
    assert process.returncode == 130
    assert errors.decode().splitlines()[-1].startswith("flotilla: what was written stays, and the agent goes on")
    found = await fleet.source.get(NAMESPACES, namespace)
    assert found["metadata"]["annotations"][KEY] == "us"


@contextlib.asynccontextmanager
async def moves_watched(fleet: Fleet, namespace: str) -> AsyncIterator[asyncio.StreamReader]:
    """Output of `flotilla moves -w`, which Ctrl-C ends at the end of the context."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agent.cli", "moves", "-w", "-n", namespace),
        *("--kubeconfig", str(fleet.sandbox["cd"].kubeconfig)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(os.environ),
    )
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = await process.communicate()
    assert (process.returncode, b"Traceback" in errors) == (130, False)


async def row_of(shown: asyncio.StreamReader, pod: str) -> list[str]:
    """Return the cells of the next row about a pod."""
    async with asyncio.timeout(120):
        while not (line := (await shown.readline()).decode()).startswith(pod + " "):
            assert line, "it has ended by itself"
    return line.split()


@pytest.mark.full("A variant of the command that moves a Deployment.")
async def test_a_single_pod_is_followed_to_the_one_that_takes_its_place_and_each_change_is_told(
    fleet: Fleet, namespace: str
) -> None:
    await send(fleet, namespace, "eu")
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 2), namespace)
    before = {pod["metadata"]["name"] for pod in await in_target(fleet, namespace, "eu", 2)}
    await send(fleet, namespace, "eu > us")
    name = min(before)
    words = ("move", f"pod/{name}", "--to", "us", "--wait")
    async with moves_watched(fleet, namespace) as shown:
        async with closed(fleet, namespace, "us"):
            waiting = asyncio.ensure_future(run(fleet, namespace, *words))
            rows = [await row_of(shown, name)]
        code, output, errors = await waiting
        while rows[-1][4] != "Done":
            rows.append(await row_of(shown, name))
    assert code == 0, errors
    assert f" takes the place of {name}\n" in output
    assert output.splitlines()[-1] == "1 of 1 pods are where they should be"
    assert [row[:2] for row in rows] == [[name, "eu"]] * len(rows)
    assert len(rows) > 1, "it is told, and that it is over"
    after = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in await fleet.pods(namespace, "web")}
    assert after.pop(min(before - {name})) == virtual_node(namespace, "eu"), "the other one stays"
    assert [*after.values()] == [virtual_node(namespace, "us")]


@pytest.mark.full("A variant of the command that moves a Deployment.")
async def test_a_single_pod_that_nothing_takes_elsewhere_ends_the_wait_with_the_reason(
    fleet: Fleet, namespace: str
) -> None:
    await send(fleet, namespace, "eu")
    await fleet.source.create(STATEFULSETS, manifests.stateful_set("db", 1), namespace)
    await fleet.source.create(PODS, manifests.pod("alone"), namespace)
    await fleet.source.create(PODS, manifests.pod("here", elect=None), namespace)
    await in_target(fleet, namespace, "eu", 1, "db")
    await fleet.running(namespace, "alone", 1)
    await send(fleet, namespace, "eu > us")
    expected = {
        "db-0": "is in eu: StatefulSet db knows nothing of what was said of that pod alone",
        "alone": "0 of 1 pods are where they should be; the others cannot move",
        "here": "pod here is no proxy pod",
    }
    for name, why in expected.items():
        code, _, errors = await run(fleet, namespace, "move", f"pod/{name}", "--to", "us", "--wait")
        assert (code, why in errors) == (1, True), errors


@pytest.mark.full("A variant of the command that moves a Deployment.")
async def test_a_drain_says_before_how_each_pod_would_go_and_why_one_would_not(fleet: Fleet, namespace: str) -> None:
    await send(fleet, namespace, "eu")
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 1), namespace)
    marks = {SHORT_PREFIX + "move": "never"}
    stays = manifests.deployment("stays", 1)
    stays["metadata"]["annotations"] = marks
    await fleet.source.create(DEPLOYMENTS, stays, namespace)
    (pod,) = await in_target(fleet, namespace, "eu", 1)
    (left,) = await in_target(fleet, namespace, "eu", 1, "stays")
    await send(fleet, namespace, "eu > us")
    code, output, errors = await run(fleet, namespace, "drain", "eu", "--dry-run")
    assert (code, errors) == (0, "")
    cells = {line.split()[1]: line for line in output.splitlines() if line.startswith(namespace)}
    assert cells[pod["metadata"]["name"]].split()[2:] == ["eu", "us", "yes", "its", "replacement", "first"]
    assert "no     Held: multicluster/move says never" in cells[left["metadata"]["name"]]
    assert output.splitlines()[-1] == f"target {namespace}/eu would be drained; nothing was changed"
    code, output, errors = await run(fleet, namespace, "failover", "eu", "--dry-run")
    assert (code, errors) == (0, "")
    assert f"{pod['metadata']['name']}  " in output
    told = ["of 2 pods 1 move, 0 find no room, 1 stay", f"target {namespace}/eu would be lost; nothing was changed"]
    assert output.splitlines()[-2:] == told
    code, output, _ = await run(fleet, namespace, "drain", "eu", "--dry-run", "--agent-flag=--allowed-targets=eu")
    assert (code, "us: not in --allowed-targets of the agent (eu)" in output) == (0, True)
    target = await fleet.source.get(TARGETS, "eu", namespace)
    assert SHORT_PREFIX + "retire" not in target["metadata"].get("annotations", {})


@pytest.mark.full("A variant of the dry runs above: all pods of a target together need more capacity than exists.")
async def test_dry_runs_judge_all_pods_of_a_target_together(fleet: Fleet, namespace: str) -> None:
    """Each node of the other target has capacity for one pod. One node is taken, so one pod of all finds none."""
    nodes = await fleet.clients["us"].list(NODES)
    large = {"cpu": f"{int(nodes[0]['status']['allocatable']['cpu']) * 3 // 5}"}
    for app, target, replicas in (("there", "us", 1), ("web", "eu", len(nodes))):
        made = manifests.deployment(app, replicas)
        made["metadata"]["annotations"] = {KEY: target}
        made["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": large}
        await fleet.source.create(DEPLOYMENTS, made, namespace)
        await in_target(fleet, namespace, target, replicas, app)
    both = {"metadata": {"annotations": {KEY: "eu,us"}}}
    await fleet.source.patch(DEPLOYMENTS, "web", both, namespace)
    wanted = f"of {len(nodes)} pods {len(nodes) - 1} move, 1 find no room, 0 stay"
    for verb in ("drain", "failover"):

        async def judged(verb: str = verb) -> bool:
            code, output, _ = await run(fleet, namespace, verb, "eu", "--dry-run")
            return code == 0 and wanted in output.splitlines()

        await fleet.until(f"{verb} says {wanted}", judged, about=namespace)
    assert len(await in_target(fleet, namespace, "eu", len(nodes))) == len(nodes)
