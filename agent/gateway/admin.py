"""What Envoy says of itself, through a socket in the directory that is shared with it."""

import re
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import aiohttp

from agent.model.envoycounters import Counters

_TIMEOUT = aiohttp.ClientTimeout(total=2.0)
_LINE = re.compile(r"^(\S.*): (\d+)$", re.MULTILINE)
_TEXT = re.compile(r'^(\S+): "(.*)"$', re.MULTILINE)
_CLUSTERS, _LISTENERS = "cluster_manager.cds.", "listener_manager.lds."
_ERRORS = (aiohttp.ClientError, OSError, TimeoutError)


@dataclass(frozen=True)
class Stats:
    """Envoy's counters, and which version of its files it has."""

    counters: Counters
    texts: dict[str, str] = field(default_factory=dict)

    def version(self, *, listeners: bool) -> str:
        """Of the file that Envoy has taken in whole last."""
        return self.texts.get((_LISTENERS if listeners else _CLUSTERS) + "version_text", "")

    @property
    def listens(self) -> bool:
        """Whether Envoy takes connections: after its start it has to load its files, and ask all peers once."""
        return self.counters.get("listener_manager.workers_started", 0) > 0

    def rejected(self, *, listeners: bool) -> int:
        """How many times Envoy has refused a file, or a part of it."""
        return self.counters.get((_LISTENERS if listeners else _CLUSTERS) + "update_rejected", 0)


class Admin:
    """A client of Envoy's admin interface; use it as a context manager."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._http: aiohttp.ClientSession
        self.gone = False
        """Whether nobody was there when it was asked last; one that is slow to answer is."""

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession(connector=aiohttp.UnixConnector(self._path), timeout=_TIMEOUT)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()

    async def stats(self) -> Stats | None:
        """None while Envoy does not answer."""
        self.gone = False
        try:
            async with self._http.get("http://envoy/stats") as answer:
                text = await answer.text()
                if answer.status != 200:
                    return None
        except _ERRORS as error:
            self.gone = isinstance(error, aiohttp.ClientConnectorError)
            return None
        return Stats({name: int(value) for name, value in _LINE.findall(text)}, dict(_TEXT.findall(text)))
