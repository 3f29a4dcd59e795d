"""Common part of the Flotilla image for all checkouts, built once per test run by the first worker that needs it."""

import fcntl
import os
from pathlib import Path

import pytest

from hack.lab.sandbox import ownimage


def shared(factory: pytest.TempPathFactory) -> Path:
    """Return the folder that `write_base` has built; read-only for tests."""
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder = root / "own-base"
    with (root / "own-base.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            ownimage.write_base(root / "own-base.part").rename(folder)
    return folder
