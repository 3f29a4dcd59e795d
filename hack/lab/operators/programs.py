"""Programs of operators, and the folders of their builds."""

import hashlib
import os
from pathlib import Path

from agent.cli.progress import Progress
from hack.lab.sandbox import build, cache
from hack.lab.sandbox.build import Part
from hack.lab.sandbox.errors import BuildError, SandboxError

SOURCE = Path(__file__).resolve().parent
ROLLOUTS = Part("rollouts", "Argo Rollouts", ("rollouts-controller",), "rollouts")
KUSTOMIZE = Part("kustomize", "Flux's kustomize-controller", ("kustomize-controller",), "kustomize")
OPERATORS = {part.name: part for part in (ROLLOUTS, KUSTOMIZE)}

_DEFINITIONS = "crds.yaml"


def folder(part: Part) -> Path:
    """Return the folder in the cache that keeps a build; other pinned versions result in another folder."""
    digest = hashlib.sha256()
    for path in (SOURCE / "build", SOURCE / part.folder / "go.mod", SOURCE / part.folder / "go.sum"):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return cache.folder() / f"operator-{part.name}-{digest.hexdigest()[:8]}"


def program(part: Part) -> Path:
    """Return the path of a built operator."""
    return folder(part) / part.programs[0]


def definitions(part: Part) -> Path:
    """Return the path of a built operator's CRDs, a YAML file."""
    return folder(part) / _DEFINITIONS


async def find(part: Part, progress: Progress, *, compile: bool = True) -> Path:
    """Return the path of an operator, built into the cache if needed, which takes minutes.

    :param compile: whether to build it
    :raises SandboxError: if the operator is neither built nor can be
    """
    if os.access(program(part), os.X_OK):
        return program(part)
    if not compile:
        raise SandboxError(f"{part.title} is not built: `.venv/bin/python -m hack.lab.operators {part.name}` builds it")
    async with cache.exclusive(progress):
        # Another process may have built it while this one waited.
        if not os.access(program(part), os.X_OK):
            try:
                await build.control_plane(SOURCE, folder(part), progress, part)
            except BuildError as error:
                raise SandboxError(f"{part.title} cannot be built: {error}") from error
    return program(part)
