"""Compiled Python is kept, so that what tests start does not compile itself each time."""

import os
import sys

import pytest

from hack.lab.sandbox import cache


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Who wants none beside the source gets none there: it is in the cache."""
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        sys.pycache_prefix = os.environ.setdefault("PYTHONPYCACHEPREFIX", str(cache.folder() / "bytecode"))
        sys.dont_write_bytecode = False
