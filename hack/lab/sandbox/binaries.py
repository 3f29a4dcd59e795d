"""Sources of the control plane's programs.

In this order: $KUBEBUILDER_ASSETS or PATH (complete and of one supported version), the cache, the official
releases, a build from Go modules.
"""

import asyncio
import hashlib
import os
import platform
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.cli.progress import Progress
from hack.lab.sandbox import build, cache, download
from hack.lab.sandbox.build import CONTROL_PLANE, Module, Part
from hack.lab.sandbox.components import PROGRAMS, REAL_PROGRAMS
from hack.lab.sandbox.download import ETCD, KUBERNETES, KWOK
from hack.lab.sandbox.errors import BuildError, SandboxError
from hack.lab.sandbox.golang import SOURCE
from hack.lab.sandbox.plan import OLDEST_MINOR, NodeKind
from hack.lab.sandbox.realnode import host

HELM = Module("helm", "v3.19.5", "helm.sh/helm/v3/cmd/helm", "helm.sh/helm/v3/internal/version.version")
METRICS_SERVER = Module("metrics-server", "v0.9.0", "sigs.k8s.io/metrics-server/cmd/metrics-server")
TRAEFIK = Module("traefik", "v3.7.13", "github.com/traefik/traefik/v3/cmd/traefik", source=SOURCE / "ingress")

_KUBERNETES_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Programs:
    """A complete set: paths by name, and the Kubernetes version without its patch level (`1.36`)."""

    paths: Mapping[str, str]
    version: str


async def find(names: Sequence[str], progress: Progress) -> Programs:
    """Find, download or build programs. Raises SandboxError with the attempts and a remedy."""
    reasons = []
    for place, paths in _installed(names):
        missing = [name for name in names if name not in paths]
        if missing:
            reasons.append(f"{place}: no {', '.join(missing)}")
            continue
        minors = set(await asyncio.gather(*(_minor(name, paths[name]) for name in _KUBERNETES_PROGRAMS)))
        if len(minors) == 1 and (minor := minors.pop()) >= OLDEST_MINOR:
            return Programs(paths, f"1.{minor}")
        reasons.append(f"{place}: not all programs are of one Kubernetes version from 1.{OLDEST_MINOR} on")
    paths = _cached(names)
    if _missing(names, paths):
        paths = await _obtain(names, progress, reasons)
    return Programs(paths, KUBERNETES.removeprefix("v").rpartition(".")[0])


async def for_nodes(kind: NodeKind, progress: Progress, *, fakes: bool = False) -> Programs:
    """Find or build the programs of a sandbox with this kind of nodes; for real ones also the machine's.

    :param fakes: whether there are fake nodes in addition to a real one
    :raises SandboxError: if a program can neither be found nor built
    """
    if kind == "kwok":
        return await find(PROGRAMS, progress)
    machine = await host.programs(progress)
    found = await find((*REAL_PROGRAMS, "kwok") if fakes else REAL_PROGRAMS, progress)
    return Programs({**machine, **found.paths}, found.version)


def built_folder(part: Part = CONTROL_PLANE) -> Path:
    """Return the cache folder of a part's build; a change of its sources results in another folder."""
    shared = [SOURCE / name for name in ("build", "go.mod", "go.sum")] + sorted((SOURCE / "multicall").glob("*.go"))
    digest = hashlib.sha256()
    for path in (*shared, *sorted((SOURCE / part.folder).glob("*.go"))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return cache.folder() / f"{part.name}-{KUBERNETES}-{digest.hexdigest()[:8]}"


def released_folder() -> Path:
    """Return the cache folder of the official releases."""
    return cache.folder() / f"control-plane-{KUBERNETES}-etcd-{ETCD}-kwok-{KWOK}"


def architecture() -> str:
    """Return this machine's architecture by Go's name."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


def _installed(names: Sequence[str]) -> list[tuple[str, dict[str, str]]]:
    places = []
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    for place, path in (("$KUBEBUILDER_ASSETS", assets), ("PATH", os.environ.get("PATH"))):
        if path:
            found = {name: shutil.which(name, path=path) for name in names}
            places.append((place, {name: where for name, where in found.items() if where}))
    return places


def _cached(names: Sequence[str]) -> dict[str, str]:
    """Return the paths of those programs that are in the cache; programs of one part come from one folder."""
    found: dict[str, str] = {}
    for part in build.PARTS:
        wanted = [name for name in names if name in part.programs]
        for folder in (released_folder(), built_folder(part)):
            if all(os.access(folder / name, os.X_OK) for name in wanted):
                found |= {name: str(folder / name) for name in wanted}
                break
    return found


def _missing(names: Sequence[str], paths: Mapping[str, str]) -> list[str]:
    return [name for name in names if name not in paths]


async def _minor(name: str, path: str) -> int:
    arguments = ("version", "--client") if name == "kubectl" else ("--version",)
    quiet = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            path, *arguments, stdin=quiet, stdout=asyncio.subprocess.PIPE, stderr=quiet
        )
    except OSError:
        return 0
    output, _ = await process.communicate()
    match = re.search(rb"v1\.(\d+)\.", output)
    return int(match[1]) if match else 0


async def helm(progress: Progress) -> str:
    """Return the path of helm: from PATH, the cache, or built from its Go module. Raises SandboxError."""
    return await _of_module(HELM, progress)


async def metrics_server(progress: Progress, *, compile: bool = True) -> str:
    """Return the path of metrics-server. `compile`: build it if neither PATH nor the cache has it, which takes
    minutes.
    """
    if not compile and _kept(METRICS_SERVER) is None:
        raise SandboxError("metrics-server is not built: `flotilla sandbox programs --metrics-server` does that")
    return await _of_module(METRICS_SERVER, progress)


async def traefik(progress: Progress, *, compile: bool = True) -> str:
    """Return the path of Traefik, an ingress controller, found or built like metrics-server."""
    if not compile and _kept(TRAEFIK) is None:
        raise SandboxError("Traefik is not built: `flotilla sandbox programs --traefik` does that")
    return await _of_module(TRAEFIK, progress)


def _kept(what: Module) -> str | None:
    kept = cache.folder() / f"{what.program}-{what.version}" / what.program
    return shutil.which(what.program) or (str(kept) if os.access(kept, os.X_OK) else None)


async def _of_module(what: Module, progress: Progress) -> str:
    if found := _kept(what):
        return found
    out = cache.folder() / f"{what.program}-{what.version}"
    async with cache.exclusive(progress):
        # Another process may have built it during the wait.
        if _kept(what) is None:
            try:
                await build.module(what, out, progress)
            except BuildError as error:
                raise SandboxError(f"{what.program} is missing: {error}; or put {what.program} on PATH") from error
    return str(out / what.program)


async def _obtain(names: Sequence[str], progress: Progress, reasons: list[str]) -> dict[str, str]:
    try:
        async with cache.exclusive(progress):
            # Another process may have got them during the wait.
            if missing := _missing(names, _cached(names)):
                try:
                    await download.fetch(missing, architecture(), released_folder(), progress)
                except download.DownloadError as error:
                    reasons.append(f"download: {error}")
                    await _build(missing, progress, reasons)
            paths = _cached(names)
    except OSError as error:
        raise SandboxError(
            f"cannot use the cache {cache.folder()}: {error}; set $FLOTILLA_CACHE to another folder"
        ) from error
    if missing := _missing(names, paths):
        raise SandboxError(_gave_up(names, missing, reasons))
    return paths


async def _build(missing: Sequence[str], progress: Progress, reasons: list[str]) -> None:
    """Build the parts that contain the missing programs; append the reason if a build fails."""
    try:
        for part in build.PARTS:
            if not set(part.programs).isdisjoint(missing):
                await build.control_plane(SOURCE, built_folder(part), progress, part)
    except BuildError as error:
        reasons.append(f"build: {error}")


def _gave_up(names: Sequence[str], missing: Sequence[str], reasons: Sequence[str]) -> str:
    tried = "\n".join(f"  - {reason}" for reason in reasons)
    return (
        f"these programs of Kubernetes clusters are missing and could not be had: {', '.join(missing)}\n{tried}\n"
        f"Or allow access to {download.base('kubernetes')} and {download.base('github')}, or to a Go module proxy"
        " ($GOPROXY), or put"
        f" {', '.join(names)} on PATH or into the folder $KUBEBUILDER_ASSETS."
    )
