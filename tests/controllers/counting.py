"""Counts writes to API servers."""

from typing import Any

import pytest

from agent.api.kinds import Kind
from agent.kube.client import Client

_VERBS = ("create_raw", "patch_raw", "update_raw", "delete")


def counting_writes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Return a list that receives verb and kind of each later write by any client."""
    writes = list[tuple[str, str]]()

    def counted(verb: str) -> Any:
        real = getattr(Client, verb)

        async def write(self: Client, kind: Kind, *words: Any, **more: Any) -> Any:
            if not more.get("dry_run"):
                writes.append((verb, kind.name))
            return await real(self, kind, *words, **more)

        return write

    for verb in _VERBS:
        monkeypatch.setattr(Client, verb, counted(verb))
    return writes
