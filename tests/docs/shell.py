"""A reader's shell, in which exported variables persist from block to block."""

import asyncio
import os
from pathlib import Path

_SECONDS = 150
_PASSED = ("KUBEBUILDER_ASSETS", "TMPDIR", "GOGC", "GOMAXPROCS", "FLEET_TESTS_OF")
"""Environment variables for the clusters' programs: location, limits and owner (tests/costs.py)."""


class Shell:
    """Shell in `folder`, with `programs` first in PATH."""

    def __init__(self, folder: Path, programs: Path, **environment: str) -> None:
        self.folder = folder
        self.quick_start: list[str] = []
        """Output of each block that ran before the first page."""
        # The developer's own environment is neither read nor changed.
        self._environment = {
            "PATH": f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(Path.home()),
            **{name: os.environ[name] for name in _PASSED if name in os.environ},
            **environment,
        }
        self._kept = programs / "environment"
        self._kept.touch()

    async def run(self, commands: str) -> str:
        """Run a block and return its output. Raises AssertionError with the output if a command fails."""
        script = f". '{self._kept}'\n{commands}\nexport -p > '{self._kept}'\n"
        process = await asyncio.create_subprocess_exec(
            "bash", "-e", "-o", "pipefail", "-c", script,
            cwd=self.folder, env=self._environment, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            output, _ = await asyncio.wait_for(process.communicate(), _SECONDS)
        except TimeoutError:
            process.kill()
            raise AssertionError(f"not within {_SECONDS} s:\n{commands}") from None
        text = output.decode()
        assert process.returncode == 0, f"{commands}\n--- ended with {process.returncode}:\n{text}"
        return text
