"""What of our own image is the same for all checkouts: made once in a run of tests, by whichever worker needs it."""

import fcntl
import os
from pathlib import Path

import pytest

from hack.lab.sandbox import ownimage


def shared(factory: pytest.TempPathFactory) -> Path:
    """The folder that `write_base` has made; nobody may change what is in it."""
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder = root / "own-base"
    with (root / "own-base.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            ownimage.write_base(root / "own-base.part").rename(folder)
    return folder
