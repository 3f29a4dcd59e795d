"""Objects of a sandbox on the machine, found by name: none remain after `down`."""

from pathlib import Path

from hack.lab.sandbox import network, process
from hack.lab.sandbox.plan import identity
from hack.lab.sandbox.realnode import cgroups


def leftovers(directory: Path) -> list[str]:
    """Return everything that a sandbox in this directory has on the machine."""
    name = identity(directory.resolve())
    nodes = network.namespace_name(name, "*")
    found = [f"process {pid}" for pid in process.find_all(name)]
    found += [f"process {pid} in a cgroup" for pid in cgroups.members(nodes)]
    found += [f"cgroup {folder}" for hierarchy in _hierarchies() for folder in hierarchy.glob(nodes)]
    found += [f"link {entry.name}" for entry in Path("/sys/class/net").glob(f"{network.bridge_name(name)}*")]
    namespaces = Path("/var/run/netns")
    if namespaces.is_dir():
        found += [f"namespace {entry.name}" for entry in namespaces.glob(nodes)]
    found += [f"mount {line.split()[4]} seen by {pid}" for pid, line in _mounts() if str(directory) in line]
    return found + ([f"directory {directory}"] if directory.exists() else [])


def _hierarchies() -> list[Path]:
    return cgroups.hierarchies(cgroups.MOUNTS.read_text())


def _mounts() -> list[tuple[str, str]]:
    """Return every mount of any process."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            found += [(entry.name, line) for line in (entry / "mountinfo").read_text().splitlines()]
        except OSError:
            continue
    return found
