"""The sources of the previous commit."""

import subprocess
from pathlib import Path

from agent.sandbox.objects import REPOSITORY

_PARTS = ("agent", "webhook", "charts")


def checkout(folder: Path) -> Path:
    """What of the previous commit is installed, in this folder; this commit's where there is no history."""
    archive = subprocess.run(
        ["git", "-C", str(REPOSITORY), "archive", "HEAD~1", *_PARTS], capture_output=True, check=False
    )
    if archive.returncode:
        return REPOSITORY
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder
