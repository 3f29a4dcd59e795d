"""Programs of the machine that a real node needs; missing Debian packages are installed."""

import asyncio
import os
import shutil
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from agent.cli.progress import Progress, ticking
from hack.lab.sandbox.errors import SandboxError

PACKAGES: Mapping[str, str] = {
    "containerd": "containerd",
    "ctr": "containerd",
    "containerd-shim-runc-v2": "containerd",
    "runc": "runc",
    "ptp": "containernetworking-plugins",
    "host-local": "containernetworking-plugins",
    "loopback": "containernetworking-plugins",
    "portmap": "containernetworking-plugins",
    "busybox": "busybox-static",
    "iptables": "iptables",
    "ip6tables": "iptables",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
}
"""Debian's package of each program."""

_PLUGINS = ("ptp", "host-local", "loopback", "portmap")
_PLUGIN_FOLDERS = ("/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni")
_SYSTEM_FOLDERS = "/usr/sbin:/sbin:/usr/bin:/bin"
_PROGRAM_INTERPRETER = 3
_ERROR_LINES = 5


def search_path() -> str:
    """Return the search path of a node's processes: a user's PATH may lack the folders of administrators."""
    return f"{os.environ.get('PATH', '')}:{_SYSTEM_FOLDERS}".lstrip(":")


async def programs(progress: Progress) -> dict[str, str]:
    """Return the path of every program of the machine that a real node needs; installs missing ones.

    Raises SandboxError with the missing programs and a remedy.
    """
    if os.geteuid() != 0:
        raise SandboxError("real nodes take root: run the command as root, or use --nodes kwok:N")
    found = installed()
    if missing := _packages(found):
        await _install(missing, progress)
        found = installed()
    if missing := _packages(found):
        names = ", ".join(name for name in PACKAGES if name not in found)
        raise SandboxError(f"real nodes need {names}, which {' '.join(missing)} did not bring")
    return found


def installed() -> dict[str, str]:
    """Return the path of each installed program. Accepts only a static busybox, since images contain no libraries."""
    found = {}
    for name in PACKAGES:
        places = _PLUGIN_FOLDERS if name in _PLUGINS else search_path().split(":")
        candidates = (path for path in (Path(place) / name for place in places) if os.access(path, os.X_OK))
        chosen = next((path for path in candidates if name != "busybox" or is_static(path)), None)
        if chosen is not None:
            found[name] = str(chosen)
    # containerd has only one setting for the folder of all CNI plugins.
    if len({str(Path(found[name]).parent) for name in _PLUGINS if name in found}) > 1:
        return {name: path for name, path in found.items() if name not in _PLUGINS}
    return found


def is_static(program: Path) -> bool:
    """Return whether a program is an ELF file without a dynamic loader."""
    with program.open("rb") as file:
        head = file.read(64)
        if head[:4] != b"\x7fELF" or len(head) < 64:
            return False
        wide, order = head[4] == 2, "<" if head[5] == 1 else ">"
        (offset,) = struct.unpack_from(order + ("Q" if wide else "I"), head, 32 if wide else 28)
        size, count = struct.unpack_from(order + "HH", head, 54 if wide else 42)
        file.seek(offset)
        table = file.read(size * count)
    kinds = (struct.unpack_from(order + "I", table, number * size)[0] for number in range(count))
    return _PROGRAM_INTERPRETER not in kinds


def _packages(found: Iterable[str]) -> list[str]:
    return sorted({package for name, package in PACKAGES.items() if name not in found})


async def _install(packages: list[str], progress: Progress) -> None:
    shown = " ".join(packages)
    if not shutil.which("apt-get"):
        raise SandboxError(f"real nodes need what Debian calls {shown}: install it with this system's package manager")
    with progress:
        task = progress.task(f"installing {', '.join(packages)}")
        failure = await ticking(progress, _apt(packages))
        task.finish("failed" if failure else "done")
    if failure:
        raise SandboxError(f"real nodes need {shown}, and `apt-get install {shown}` failed:\n{failure}")


async def _apt(packages: list[str]) -> str:
    """Install packages without removing any; updates the lists if needed. Return the end of the error output, or ""."""
    install = ("install", "-y", "-q", "--no-install-recommends", "--no-remove", *packages)
    if not await _run("apt-get", *install):
        return ""
    return await _run("apt-get", "update", "-q") or await _run("apt-get", *install)


async def _run(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "PATH": search_path()},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    lines = output.decode(errors="replace").splitlines()[-_ERROR_LINES:]
    return "\n".join(f"  {line}" for line in lines or ["(no output)"]) if process.returncode else ""
