"""Two clusters with a real node each."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from hack.lab.sandbox import Cluster, Sandbox, SandboxError, faults
from hack.lab.sandbox.realnode import cgroups


def why_not() -> str:
    """Return the reason why this machine cannot run real nodes; empty if it can."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        return "real nodes take root and iproute2"
    probe = f"flotilla-probe-{os.getpid()}"
    try:
        cgroups.make(probe)
    except SandboxError as error:
        return str(error)
    finally:
        cgroups.remove(probe)
    return ""


CLIENT = """
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: "flotilla.local/busybox:1", command: [sleep, "100000"]}]
"""
"""Pod that waits for commands."""


@pytest.fixture(scope="session")
def able() -> None:
    """Skip the test if the machine cannot run real nodes."""
    if reason := why_not():
        pytest.skip(reason)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def real(able: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    """Clusters `a` and `b`, without agents."""
    async with Sandbox(tmp_path_factory.mktemp("real") / "two", ["a", "b"], "real:1", agents=False) as sandbox:
        yield sandbox


async def kubectl(cluster: Cluster, *arguments: str, stdin: str = "") -> str:
    """Run kubectl through the API server of a cluster. Raises SandboxError if it fails."""
    program = cluster.runner.plan.programs["kubectl"]
    if not stdin:
        return await faults.kubectl(cluster.runner.cluster, program, cluster.directory, *arguments)
    process = await asyncio.create_subprocess_exec(
        program,
        f"--kubeconfig={cluster.kubeconfig}",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate(stdin.encode())
    assert process.returncode == 0
    return output.decode()


async def apply(cluster: Cluster, manifest: str) -> None:
    """Apply manifests."""
    await kubectl(cluster, "apply", "-f", "-", stdin=manifest)


async def ready(cluster: Cluster, *pods: str) -> None:
    """Wait until pods are ready."""
    await kubectl(cluster, "wait", "--for=condition=Ready", "--timeout=60s", *(f"pod/{pod}" for pod in pods))


async def run(cluster: Cluster, pod: str, script: str, container: str = "") -> str:
    """Run a shell script in a container."""
    chosen = ("-c", container) if container else ()
    return await kubectl(cluster, "exec", pod, *chosen, "--", "sh", "-c", script)


async def field(cluster: Cluster, path: str, *what: str) -> str:
    """Return one field of an object."""
    return await kubectl(cluster, "get", *what, "-o", f"jsonpath={{{path}}}")
