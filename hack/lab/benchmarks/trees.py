"""Agents and webhooks of another commit, in the clusters of a sandbox."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hack.lab.sandbox import Sandbox, process
from hack.lab.sandbox.components import AGENT, WEBHOOK, Context
from hack.lab.sandbox.objects import REPOSITORY

OURS = ("agent", "webhook")


def checkout(folder: Path, commit: str, parts: Sequence[str] = OURS) -> bool:
    """Write parts of a commit to a new folder; return False if the history does not go back to the commit."""
    command = ["git", "-C", str(REPOSITORY), "archive", commit, *parts]
    archive = subprocess.run(command, capture_output=True, check=False)
    if archive.returncode:
        return False
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return True


async def run_from(sandbox: Sandbox, cluster: str, sources: Path) -> None:
    """Restart the webhook and the agent of a cluster from the code in a folder. Wait until they are ready.

    :raises SandboxError: if they do not become ready
    """
    runner = sandbox[cluster].runner
    context = Context(runner.plan, runner.cluster, runner.directory)
    for component in (WEBHOOK, AGENT):
        await sandbox.stop(cluster, component.name)
        environment = process.environment(os.environ, runner.mark(component.name), str(sources))
        process.start(
            component.argv(context),
            # Without this, Python looks for modules in the working directory first.
            {**environment, "PYTHONSAFEPATH": "1"},
            log=runner.directory / f"{component.name}.log",
            pid_file=runner.directory / f"{component.name}.pid",
            namespace=runner.cluster.namespace,
        )
        await runner.started(component)
