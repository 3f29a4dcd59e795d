"""Start of a real node from nothing to a running kubelet, and its end."""

import asyncio
import signal
import socket
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.base.certificates import Pair
from hack.lab.sandbox import network, process
from hack.lab.sandbox.certificates import Authority
from hack.lab.sandbox.components import CONTAINERD, KUBE_PROXY, KUBELET, NODE
from hack.lab.sandbox.errors import SandboxError
from hack.lab.sandbox.plan import ClusterPlan, Plan
from hack.lab.sandbox.realnode import cgroups, containerd, images, kubelet, machine

if TYPE_CHECKING:
    from hack.lab.sandbox.bringup import Runner

_KILL_SECONDS = 20.0
_IMPORT_SECONDS = 20.0
_POLL_SECONDS = 0.1


def clients(cluster: ClusterPlan) -> Mapping[str, tuple[str, str]]:
    """Return the client certificates of the node's processes: user and group."""
    return {
        "kubelet": (f"system:node:{kubelet.node_name(cluster)}", "system:nodes"),
        "kube-proxy": ("system:kube-proxy", ""),
    }


def serving_pair(cluster: ClusterPlan, authority: Authority) -> Pair:
    """Return the kubelet's serving certificate."""
    return authority.serving([kubelet.node_name(cluster), *cluster.addresses])


def check_place(plan: Plan) -> None:
    """Raise SandboxError if the node could not access files that it needs."""
    for path in (Path(plan.directory), *(Path(program) for program in plan.programs.values())):
        if machine.hidden(path):
            raise SandboxError(
                f"real nodes have their own {', '.join(machine.COVERED)} and would not see {path}:"
                " use another --dir, or another folder for the programs"
            )


async def boot(runner: "Runner") -> None:
    """Start the node's machine and containerd unless they run, and import the stock images. Raises SandboxError."""
    if runner.find(NODE.name) is None:
        await end(runner)
        await _prepare(runner)
    root = Path(f"/proc/{runner.start(NODE)}/root")
    await runner.wait("its file system", lambda: asyncio.to_thread((root / machine.UP).exists), NODE)
    runner.start(CONTAINERD)
    await runner.wait("its socket", lambda: _answers(root / containerd.SOCKET.lstrip("/")), CONTAINERD, NODE)
    if await _lacks(runner, images.STOCK):
        await load(runner, images.build_stock(runner.plan.programs["busybox"], runner.directory / "node"))


def start(runner: "Runner") -> None:
    """Start kubelet and kube-proxy. The API server has to answer already."""
    runner.start(KUBELET)
    runner.start(KUBE_PROXY)


async def end(runner: "Runner") -> None:
    """End the other processes and the containers of a node whose machine has ended."""
    for component in (KUBELET, KUBE_PROXY, CONTAINERD):
        pid = runner.find(component.name)
        if pid is not None:
            process.send(pid, runner.mark(component.name), signal.SIGKILL)
    left = await kill(runner.mark(CONTAINERD.name), _cgroup(runner), _KILL_SECONDS)
    if left:
        raise SandboxError(f"cluster {runner.cluster.name}: processes {left} of its node do not end: try again")
    # A kubelet waits three seconds for each cgroup without containers (measured).
    cgroups.remove(_cgroup(runner))


async def kill(mark: str, cgroup: str, timeout: float) -> list[int]:
    """Kill all processes with a mark, and those in cgroups whose name matches. Return the remaining ones.

    Repeats this, since a process that starts containers may start one while it is being killed.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    while True:
        marked = process.find_all(mark)
        for pid in marked:
            process.send(pid, mark, signal.SIGKILL)
        contained = [pid for pid in cgroups.members(cgroup) if process.is_alive(pid)]
        for pid in contained:
            cgroups.kill(pid, cgroup)
        pids = [*marked, *contained]
        left = deadline - loop.time()
        if not pids or left < 0:
            return pids
        await process.wait_gone(pids, min(left, 1.0))


async def load(runner: "Runner", file: Path) -> None:
    """Import the images of a file, and wait until the kubelet can find them. Raises SandboxError."""
    wanted = images.names(file)
    with file.open("rb") as content:
        snapshotter = (runner.directory / "node" / "snapshotter").read_text()
        await _ctr(runner, "images", "import", "--snapshotter", snapshotter, "-", stdin=content.fileno())
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _IMPORT_SECONDS
    while missing := await _lacks(runner, wanted):
        if loop.time() > deadline:
            shown = ", ".join(missing)
            raise SandboxError(f"cluster {runner.cluster.name}: image {shown} was imported, but does not appear")
        await asyncio.sleep(_POLL_SECONDS)


async def _lacks(runner: "Runner", names: Sequence[str]) -> list[str]:
    """Return the images that the kubelet cannot find yet: containerd labels them shortly after the import."""
    listed = await _ctr(runner, "images", "ls", *(f"name=={name}" for name in names))
    known = {line.split()[0] for line in listed.splitlines() if "io.cri-containerd.image=managed" in line}
    return [name for name in names if name not in known]


async def _prepare(runner: "Runner") -> None:
    """Create the node's folders, configuration and cgroup."""
    check_place(runner.plan)
    folder = runner.directory / "node"
    for part in ("lib", "log", "networks"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    snapshotter = await _snapshotter(folder)
    cluster = runner.cluster
    programs = runner.plan.programs
    (folder / "snapshotter").write_text(snapshotter)
    (folder / "containerd.toml").write_text(containerd.config(programs, folder / "networks", snapshotter))
    (folder / "networks" / "10-pods.conflist").write_text(containerd.network(cluster.real_pod_ranges))
    (folder / "kubelet.json").write_text(kubelet.config(cluster, runner.directory / "pki", _cgroup(runner)))
    cgroups.make(_cgroup(runner))


async def _snapshotter(folder: Path) -> containerd.Snapshotter:
    """Return `overlayfs` if the disk supports overlays (an overlay itself mostly does not), else `native` (copies)."""
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        for part in ("lower", "upper", "work", "merged"):
            (Path(temporary) / part).mkdir()
        script = 'cd "$0" && mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged'
        command = ("unshare", "--mount", "--propagation=private", "--", "sh", "-c", script, temporary)
        quiet = asyncio.subprocess.DEVNULL
        attempt = await asyncio.create_subprocess_exec(*command, stdin=quiet, stdout=quiet, stderr=quiet)
        return "native" if await attempt.wait() else "overlayfs"


async def _ctr(runner: "Runner", *arguments: str, stdin: int = asyncio.subprocess.DEVNULL) -> str:
    pid = runner.find(NODE.name)
    if pid is None or runner.find(CONTAINERD.name) is None:
        raise SandboxError(f"cluster {runner.cluster.name}: containerd does not run: `flotilla sandbox up` starts it")
    programs = runner.plan.programs
    command = (programs["nsenter"], f"--mount=/proc/{pid}/ns/mnt", "--", programs["ctr"], "--namespace", "k8s.io")
    attempt = await asyncio.create_subprocess_exec(
        *command, *arguments, stdin=stdin, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await attempt.communicate()
    if attempt.returncode:
        shown = f"ctr {' '.join(arguments)}"
        raise SandboxError(
            f"cluster {runner.cluster.name}: `{shown}` failed: {errors.decode(errors='replace').strip()}"
        )
    return output.decode()


def _cgroup(runner: "Runner") -> str:
    return network.namespace_name(runner.plan.identity, runner.cluster.name)


async def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True
