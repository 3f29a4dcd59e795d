"""Source trees of earlier commits."""

import subprocess
from pathlib import Path

from hack.lab.benchmarks.trees import OURS
from hack.lab.benchmarks.trees import checkout as write_out
from hack.lab.sandbox.objects import REPOSITORY


def checkout(folder: Path, commit: str = "HEAD~1") -> Path:
    """Write the installed parts of a commit (default: the previous one) to a folder. Return it, or this tree if
    the history lacks the commit."""
    return folder if write_out(folder, commit, (*OURS, "charts")) else REPOSITORY


def before(file: str) -> str:
    """Return the parent of the commit that added a file; empty if the history does not reach that far."""
    added = _git("log", "--diff-filter=A", "--format=%H", "--", file).stdout.decode().split()
    parent = _git("rev-parse", "--verify", "--quiet", f"{added[-1]}^") if added else None
    return parent.stdout.decode().strip() if parent else ""


def _git(*words: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(["git", "-C", str(REPOSITORY), *words], capture_output=True, check=False)
