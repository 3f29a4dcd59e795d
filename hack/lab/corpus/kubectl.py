"""kubectl on one cluster, with a default namespace for each manifest."""

import asyncio
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from hack.lab.corpus.files import File

_UNKNOWN_KIND = "no matches for kind"
_TRIES = 20
_PAUSE = 0.5
_NOISE = "Warning: "


@dataclass(frozen=True)
class Said:
    """Output of kubectl for a manifest: a line for each object, and the errors."""

    lines: tuple[str, ...]
    errors: tuple[str, ...] = ()


class Kubectl:
    """kubectl with a kubeconfig and a temporary discovery cache."""

    def __init__(self, program: str, kubeconfig: Path) -> None:
        self._program = program
        self._kubeconfig = yaml.safe_load(kubeconfig.read_text())
        self._directory = tempfile.TemporaryDirectory(prefix="flotilla-corpus-")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._directory.cleanup()

    async def apply(self, file: File) -> Said:
        """Apply a manifest, or create it if it generates names. Retries while a kind that it defines is not served."""
        verb = ("create",) if file.generated else ("apply",)
        said = await self._run(file, *verb)
        for _ in range(_TRIES):
            if file.generated or not any(_UNKNOWN_KIND in each for each in said.errors):
                break
            await asyncio.sleep(_PAUSE)
            again = await self._run(file, *verb)
            said = Said((*said.lines, *(line for line in again.lines if line.endswith(" created"))), again.errors)
        return said

    async def delete(self, file: File) -> Said:
        """Delete the objects of a manifest, without waiting."""
        return await self._run(file, "delete", "--wait=false", "--ignore-not-found")

    async def _run(self, file: File, *words: str) -> Said:
        config = self._config(file.home)
        cache = Path(self._directory.name) / "cache"
        process = await asyncio.create_subprocess_exec(
            self._program,
            f"--kubeconfig={config}",
            f"--cache-dir={cache}",
            *words,
            f"--filename={file.path}",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        lines = tuple(line for line in out.decode().splitlines() if line)
        # kubectl prints a difference as indented YAML after an error.
        told = [line for line in err.decode().splitlines() if line[:1].isalpha() and not line.startswith(_NOISE)]
        return Said(lines, tuple(told) if process.returncode else ())

    def _config(self, namespace: str) -> Path:
        path = Path(self._directory.name) / f"{namespace}.json"
        if not path.exists():
            contexts = [
                {**each, "context": {**each["context"], "namespace": namespace}}
                for each in self._kubeconfig["contexts"]
            ]
            path.write_text(json.dumps({**self._kubeconfig, "contexts": contexts}))
        return path
