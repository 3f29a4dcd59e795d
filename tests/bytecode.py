"""Cache of compiled Python, so that started processes do not compile the modules again."""

import os
import sys

import pytest

from hack.lab.sandbox import cache


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Move bytecode to the cache if the user disabled bytecode next to the source."""
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        sys.pycache_prefix = os.environ.setdefault("PYTHONPYCACHEPREFIX", str(cache.folder() / "bytecode"))
        sys.dont_write_bytecode = False
