"""Promise 30: a user debugs a proxy pod like any pod, with kubectl for the source, wherever the delegate runs."""

import asyncio
import contextlib
import json
import os
import secrets
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import CLUSTER_ROLES, NODE_METRICS, NODES, PODS
from agent.api.names import virtual_node
from agent.api.roles import SOURCE_ROLE, source_cluster_role
from agent.cli.progress import Silent
from agent.model.measured import add_up
from hack.lab.sandbox import SandboxError, binaries
from tests.e2e.debugging import (
    IMAGE,
    USED_MIB,
    Kubectl,
    another_agent,
    another_kubectl,
    chatty,
    is_ready,
    md5,
    page,
    resident,
    terminal,
    until_forwarded,
    web,
)
from tests.e2e.fleet import Fleet, condition
from tests.e2e.metricsserver import metrics_server
from tests.runtime.test_health import free_port

pytestmark = [pytest.mark.realnodes]

Raw = dict[str, Any]
FILE_BYTES = 32 << 20
GATE = "example.com/lb-attached"
WITH_EACH = pytest.mark.parametrize("kubectl", ["of the sandbox", "of the machine"], indirect=True)
"""For tests in which kubectl versions differ, and one per way of streaming. All others use the sandbox's
kubectl only."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def place(fleet: Fleet) -> AsyncIterator[str]:
    """A namespace with a pod `web` that runs in the target. If metrics-server is built, both clusters run it."""
    async with fleet.namespace(("us",)) as name:
        await fleet.source.create(PODS, web(), name)
        await fleet.until("web is ready", lambda: is_ready(fleet, name), about=name, seconds=120)
        async with contextlib.AsyncExitStack() as stack:
            try:
                program = await binaries.metrics_server(Silent(), compile=False)
            except SandboxError:
                program = ""
            for cluster in ("cd", "us") if program else ():
                await stack.enter_async_context(metrics_server(fleet, cluster, name, program))
            yield name


@pytest.fixture
def one(fleet: Fleet, place: str) -> Kubectl:
    """The sandbox's kubectl, of the same version as its API servers."""
    return Kubectl(fleet.sandbox.plan.programs["kubectl"], fleet.sandbox["cd"].kubeconfig, place)


@pytest.fixture(params=["of the sandbox", pytest.param("of the machine", marks=pytest.mark.seldom)])
def kubectl(request: pytest.FixtureRequest, one: Kubectl) -> Kubectl:
    """The sandbox's kubectl, then the machine's, which may be older."""
    if request.param == "of the sandbox":
        return one
    other = another_kubectl(one.program)
    if other is None:
        pytest.skip("the machine has no kubectl of its own")
    return replace(one, program=other)


@WITH_EACH
async def test_logs_with_every_option(kubectl: Kubectl) -> None:
    everything = "".join(f"line {number}\n" for number in range(20))
    assert (await kubectl("logs", "web", "-c", "web")).startswith(everything)
    assert await kubectl("logs", "web", "-c", "init") == "prepared\n"
    assert await kubectl("logs", "web", "-c", "restarted", "--previous") == "the first time\n"
    assert await kubectl("logs", "web", "-c", "init", "--tail=0") == ""
    assert await kubectl("logs", "web", "-c", "web", "--limit-bytes=10") == everything[:10]
    assert len((await kubectl("logs", "web", "-c", "side", "--since=3s")).splitlines()) <= 4
    stamped = (await kubectl("logs", "web", "-c", "side", "--timestamps", "--tail=3")).splitlines()
    assert len(stamped) == 3
    time = stamped[1].split()[0]
    since = (await kubectl("logs", "web", "-c", "side", "--timestamps", f"--since-time={time}")).splitlines()
    assert since[0].split()[0] >= time[:19]
    together = await kubectl("logs", "web", "--all-containers", "--prefix", "--tail=1")
    assert "[pod/web/init] prepared" in together


@pytest.mark.parametrize("verb", [("logs", "-f", "--tail=1"), ("attach",)], ids=lambda verb: verb[0])
async def test_what_a_container_says_comes_as_it_is_said(kubectl: Kubectl, verb: tuple[str, ...]) -> None:
    process = await kubectl.start(*verb, "web", "-c", "side")
    assert process.stdout is not None
    async with asyncio.timeout(20):
        lines = [await process.stdout.readline() for _ in range(4)]
    assert len(set(lines)) == 4
    process.terminate()
    await process.communicate()


@WITH_EACH
async def test_exec_has_streams_and_exit_codes(kubectl: Kubectl) -> None:
    script = "cat; echo wrong >&2; exit 7"
    code, output, errors = await kubectl.run("exec", "-i", "web", "-c", "side", "--", "sh", "-c", script, stdin=b"in")
    assert (code, output) == (7, "in")
    assert "wrong" in errors
    code, _, errors = await kubectl.run("exec", "web", "-c", "nope", "--", "true")
    assert code == 1
    assert "nope" in errors


async def test_a_terminal_follows_the_size_of_its_window(kubectl: Kubectl) -> None:
    async with terminal(kubectl, "exec", "-it", "web", "-c", "side", "--", "sh") as process, asyncio.timeout(20):
        assert await process.wait() == 5


async def test_clients_that_speak_spdy_are_served(one: Kubectl) -> None:
    names = ("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS")
    old = replace(one, variables=tuple((name, "false") for name in names))
    script = "cat; exit 7"
    code, output, _ = await old.run("exec", "-i", "web", "-c", "side", "--", "sh", "-c", script, stdin=b"in")
    assert (code, output) == (7, "in")
    port = free_port()
    process = await old.start("port-forward", "pod/web", f"{port}:8080")
    try:
        async with asyncio.timeout(30):
            await until_forwarded(process, 1)
            assert (await page(port)).endswith(b"hello\n")
    finally:
        process.kill()
        await process.communicate()


async def test_attach_talks_to_the_process_of_the_container(kubectl: Kubectl) -> None:
    process = await kubectl.start("attach", "-i", "web", "-c", "web")
    assert process.stdin is not None
    assert process.stdout is not None
    seen = b""
    async with asyncio.timeout(20):
        while b"got word" not in seen:
            # Input sent before kubectl is attached gets no echo.
            process.stdin.write(b"word\n")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    seen += await process.stdout.readline()
    process.kill()
    await process.communicate()


@WITH_EACH
async def test_ports_are_forwarded_for_many_connections(kubectl: Kubectl) -> None:
    ports = [free_port(), free_port()]
    process = await kubectl.start("port-forward", "pod/web", f"{ports[0]}:8080", f"{ports[1]}:8081")
    try:
        async with asyncio.timeout(30):
            await until_forwarded(process, 2)
            pages = await asyncio.gather(*(page(port) for port in ports for _ in range(25)))
        assert all(found.endswith(b"hello\n") for found in pages)
    finally:
        process.kill()
        await process.communicate()


async def test_a_large_file_is_copied_both_ways(kubectl: Kubectl, tmp_path: Path) -> None:
    data = os.urandom(1 << 20) * (FILE_BYTES >> 20)
    sent, received = tmp_path / "sent", tmp_path / "received"
    sent.write_bytes(data)
    await kubectl("cp", str(sent), "web:/tmp/file", "-c", "side")
    assert (await kubectl("exec", "web", "-c", "side", "--", "md5sum", "/tmp/file")).split()[0] == md5(data)
    # With SPDY, containerd, kubelets and API servers close after the last write. A ping at that moment resets the
    # connection, and unread data is lost. With all cores busy, 8 of 38 transfers directly from the target ended
    # early with SPDY (0 of 39 with WebSocket), and 10 of 58 through the virtual node.
    await kubectl("cp", "--retries=5", "web:/tmp/file", str(received), "-c", "side")
    assert md5(received.read_bytes()) == md5(data)
    await kubectl("exec", "web", "-c", "side", "--", "rm", "/tmp/file")


async def test_top_shows_what_delegates_use(kubectl: Kubectl, fleet: Fleet, place: str) -> None:
    try:
        await binaries.metrics_server(Silent(), compile=False)
    except SandboxError as error:
        pytest.skip(str(error))

    async def shown() -> dict[str, list[str]]:
        code, output, _ = await kubectl.run("top", "pod", "web", "--containers", "--no-headers")
        return {line.split()[1]: line.split()[2:] for line in output.splitlines()} if code == 0 else {}

    containers = await fleet.until("its usage is shown", shown, about=place, seconds=90)
    assert {"web", "side", "restarted"} <= containers.keys()
    assert all(cpu.endswith("m") and memory.endswith("Mi") for cpu, memory in containers.values())
    # It may be more, since files copied into the container count, too.
    assert int(containers["side"][1].removesuffix("Mi")) >= USED_MIB
    assert int(containers["restarted"][1].removesuffix("Mi")) < USED_MIB
    # The agent computes idle capacity from the same metrics.
    _, measured = await fleet.clients["us"].list_raw(NODE_METRICS)
    real = await fleet.clients["us"].list(NODES)
    assert 0 < add_up(real, map(bytes, measured))["memory"] < add_up(real, ())["memory"]
    name = virtual_node(place, "us")
    nodes = {line.split()[0]: line.split() for line in (await kubectl("top", "node", "--no-headers")).splitlines()}
    assert {name, "cd-node-0"} <= nodes.keys(), "other files of tests may have targets of their own"
    assert int(nodes[name][3].removesuffix("Mi")) >= USED_MIB
    summary = json.loads(await kubectl("get", "--raw", f"/api/v1/nodes/{name}/proxy/stats/summary"))
    assert "web" in {pod["podRef"]["name"] for pod in summary["pods"]}
    page = await kubectl("get", "--raw", f"/api/v1/nodes/{name}/proxy/metrics/resource")
    assert "resource_scrape_error 0" in page


async def test_a_container_to_debug_it_with_runs_in_the_target(kubectl: Kubectl) -> None:
    name = f"debugger-{secrets.token_hex(2)}"
    # It shares the process namespace of its target container.
    script = "ps; cat; echo wrong >&2; exit 3"
    debug = ("debug", "-i", "web", f"--image={IMAGE}", "--target=side", "-c", name, "--", "sh", "-c", script)
    await kubectl.run(*debug, stdin=b"typed\n")
    # Output before kubectl is attached appears only in the log.
    log = await kubectl("logs", "web", "-c", name)
    assert all(part in log for part in ("while true; do date; sleep 1; done", "typed", "wrong"))


async def test_a_container_to_debug_it_with_takes_commands_and_tells_how_it_ended(one: Kubectl, fleet: Fleet) -> None:
    script = "echo started; while [ ! -e /tmp/end ]; do sleep 0.1; done; exit 5"
    await one("debug", "web", f"--image={IMAGE}", "-c", "helper", "--", "sh", "-c", script)

    async def state(wanted: str) -> Raw | None:
        status = (await fleet.source.get(PODS, "web", one.namespace))["status"]
        statuses = status.get("ephemeralContainerStatuses") or ()
        return next((each["state"].get(wanted) for each in statuses if each["name"] == "helper"), None)

    await fleet.until("it runs", lambda: state("running"), about=one.namespace)
    assert await one("logs", "web", "-c", "helper") == "started\n"
    assert await one("exec", "web", "-c", "helper", "--", "echo", "inside") == "inside\n"
    await one("exec", "web", "-c", "helper", "--", "touch", "/tmp/end")
    ended = await fleet.until("it has ended", lambda: state("terminated"), about=one.namespace)
    assert ended["exitCode"] == 5


async def test_a_container_to_debug_it_with_may_have_a_terminal(one: Kubectl) -> None:
    arguments = ("-it", "web", f"--image={IMAGE}", "-c", "shell", "--", "sh")
    async with terminal(one, "debug", *arguments) as process, asyncio.timeout(20):
        await process.wait()


@WITH_EACH
async def test_a_copy_to_debug_it_with_runs_in_a_target_as_the_pod_does(kubectl: Kubectl, fleet: Fleet) -> None:
    """kubectl 1.36 drops annotations; older versions copy them."""
    namespace, name = kubectl.namespace, f"web-{secrets.token_hex(2)}"
    changed = ("--share-processes", "--set-image=restarted=flotilla.local/none:1")
    debugger = (f"--image={IMAGE}", "-c", "debugger", "--", "sh", "-c", "while ps; do sleep 1; done")
    await kubectl("debug", "web", f"--copy-to={name}", *changed, *debugger)

    async def seen() -> bool:
        code, output, _ = await kubectl.run("logs", name, "-c", "debugger")
        return code == 0 and "httpd -p 8081" in output

    try:
        await fleet.until("its container sees the processes of the others", seen, about=namespace)
        uid = (await fleet.source.get(PODS, name, namespace))["metadata"]["uid"]
        cluster, delegate = (await fleet.delegates(namespace))[uid]
        assert cluster == "us"
        images = {each["name"]: each["image"] for each in delegate["spec"]["containers"]}
        assert images["restarted"] == "flotilla.local/none:1"
    finally:
        await fleet.source.delete(PODS, name, namespace)
        await fleet.gone(PODS, name, namespace)


async def test_a_pod_that_has_no_node_yet_says_so(one: Kubectl, fleet: Fleet) -> None:
    pod = chatty(1024)
    pod["spec"]["nodeSelector"] = {"nobody": "has"}
    await fleet.source.create(PODS, pod, one.namespace)
    code, _, errors = await one.run("exec", "chatty", "--", "true")
    assert (code, "does not have a host assigned" in errors) == (1, True)
    await fleet.source.delete(PODS, "chatty", one.namespace)
    await fleet.gone(PODS, "chatty", one.namespace)


async def test_a_long_log_goes_through_in_constant_memory(one: Kubectl, fleet: Fleet) -> None:
    """Set FLOTILLA_LOG_MIB=1024 for a log of 1 GiB; the default is 64 MiB."""
    size = int(os.environ.get("FLOTILLA_LOG_MIB", "64")) << 20
    await fleet.source.create(PODS, chatty(size), one.namespace)
    await fleet.until("it has said all", lambda: is_said(fleet, one.namespace), about=one.namespace, seconds=200)
    agent = fleet.sandbox["cd"].pid("agent")
    assert agent is not None
    before = most = resident(agent)
    process = await one.start("logs", "chatty")
    assert process.stdout is not None
    taken = 0
    while data := await process.stdout.read(1 << 20):
        taken += len(data)
        most = max(most, resident(agent))
    assert (await process.wait(), taken) == (0, size)
    print(f"agent: {before >> 20} MiB before, {most >> 20} MiB at most")
    assert most - before < 20 << 20
    await fleet.source.delete(PODS, "chatty", one.namespace)
    await fleet.gone(PODS, "chatty", one.namespace)


async def is_said(fleet: Fleet, namespace: str) -> bool:
    return bool((await fleet.source.get(PODS, "chatty", namespace))["status"]["phase"] == "Succeeded")


async def test_a_client_that_is_killed_ends_what_it_ran(kubectl: Kubectl, fleet: Fleet) -> None:
    before = connections(fleet)
    script = "echo started; cat > /dev/null; echo gone > /tmp/gone"
    process = await kubectl.start("exec", "-i", "web", "-c", "side", "--", "sh", "-c", script)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"started\n"
    process.kill()
    await process.communicate()

    async def noticed() -> bool:
        return (await kubectl.run("exec", "web", "-c", "side", "--", "rm", "/tmp/gone"))[0] == 0

    await fleet.until("the far side has noticed", noticed)

    async def closed() -> bool:
        return connections(fleet) <= before + 2

    await fleet.until("its connections are closed", closed)


def connections(fleet: Fleet) -> int:
    """Return the number of open files of the source's agent."""
    return len(os.listdir(f"/proc/{fleet.sandbox['cd'].pid('agent')}/fd"))


async def test_a_node_tells_of_its_pods(kubectl: Kubectl, place: str) -> None:
    node = f"/api/v1/nodes/{virtual_node(place, 'us')}/proxy"
    assert await kubectl("get", "--raw", f"{node}/healthz") == "ok"
    pods = json.loads(await kubectl("get", "--raw", f"{node}/pods"))
    assert [pod["metadata"]["name"] for pod in pods["items"]] == ["web"]


async def test_a_verb_that_the_target_does_not_grant_is_named(kubectl: Kubectl, fleet: Fleet, place: str) -> None:
    role = source_cluster_role()
    reduced = [rule for rule in role["rules"] if not {"pods/exec", "pods/log"} & set(rule["resources"])]
    us = fleet.clients["us"]
    await us.patch(CLUSTER_ROLES, SOURCE_ROLE, {"rules": reduced})
    try:

        async def refused() -> bool:
            _, _, errors = await kubectl.run("exec", "web", "-c", "side", "--", "true")
            return 'may not "create" pods/exec' in errors and "target us" in errors

        await fleet.until("exec names the verb", refused)
        _, _, errors = await kubectl.run("logs", "web", "-c", "side", "--tail=1")
        assert 'may not "get" pods/log' in errors
    finally:
        await us.patch(CLUSTER_ROLES, SOURCE_ROLE, {"rules": role["rules"]})

    async def allowed() -> bool:
        return (await kubectl.run("exec", "web", "-c", "side", "--", "true"))[0] == 0

    await fleet.until("exec is allowed again", allowed)


async def test_a_target_that_is_away_is_named(kubectl: Kubectl, fleet: Fleet) -> None:
    await fleet.sandbox.set_link("us", up=False)
    try:
        _, _, errors = await kubectl.run("logs", "web", "-c", "side", "--tail=1")
        assert "target us does not answer" in errors
        code, _, errors = await kubectl.run("exec", "web", "-c", "side", "--", "true")
        assert code == 1
        assert "target us does not answer" in errors
    finally:
        await fleet.sandbox.set_link("us", up=True)

    async def back() -> bool:
        return (await kubectl.run("exec", "web", "-c", "side", "--", "true"))[0] == 0

    await fleet.until("exec works again", back)


@pytest.mark.usefixtures("processes_only")
async def test_another_replica_takes_over_with_an_address_and_a_certificate_of_its_own(
    one: Kubectl, fleet: Fleet, place: str
) -> None:
    async def where() -> str:
        status = (await fleet.source.get(NODES, virtual_node(place, "us")))["status"]
        return next(each["address"] for each in status["addresses"] if each["type"] == "InternalIP")

    async def follows(address: str) -> bool:
        return await where() == address

    async def works() -> bool:
        logs = await one.run("logs", "web", "-c", "side", "--tail=1")
        return logs[0] == 0 and (await one.run("exec", "web", "-c", "side", "--", "true"))[0] == 0

    first = await where()
    async with another_agent(fleet, "cd") as second:
        await fleet.sandbox.kill("cd", "agent")
        await fleet.until("the node has the address of who leads", lambda: follows(second))
        await fleet.until("logs and exec work again", works)
    await fleet.until("the node has the address of who leads", lambda: follows(first))
    await fleet.until("logs and exec work again", works)


@pytest.mark.full("tests/controllers/pods/test_conditions.py shows the same on fake nodes.")
async def test_a_readiness_gate_that_is_set_in_the_source_counts_for_the_kubelet(fleet: Fleet, place: str) -> None:
    container = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sleep", "3600"]}
    spec = {"readinessGates": [{"conditionType": GATE}], "terminationGracePeriodSeconds": 0, "containers": [container]}
    metadata = {"name": "gated", "annotations": {"multicluster/elect": ""}}
    await fleet.source.create(PODS, {"metadata": metadata, "spec": spec}, place)

    async def is_ready_by(status: str, reason: str | None) -> bool:
        found = condition(await fleet.source.get(PODS, "gated", place), "Ready")
        return (found.get("status"), found.get("reason")) == (status, reason)

    await fleet.until("the kubelet waits", lambda: is_ready_by("False", "ReadinessGatesNotReady"), about=place)
    attached = {"type": GATE, "status": "True", "reason": "Attached"}
    told = {"status": {"conditions": [attached]}}
    await fleet.source.patch(PODS, "gated", told, place, sub="status", style="strategic")
    await fleet.until("the kubelet counts the gate", lambda: is_ready_by("True", None), about=place)
    found = await fleet.source.get(PODS, "gated", place)
    assert condition(found, GATE)["reason"] == "Attached"
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
    await fleet.source.delete(PODS, "gated", place)
