"""What Envoy says of itself, through a socket in the directory that is shared with it."""

import re
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec

from agent.model.envoycounters import Counters
from agent.model.envoyparts import ca_of

_TIMEOUT = aiohttp.ClientTimeout(total=2.0)
_LINE = re.compile(r"^(\S.*): (\d+)$", re.MULTILINE)
_TEXT = re.compile(r'^(\S+): "(.*)"$', re.MULTILINE)
_CLUSTERS, _LISTENERS = "cluster_manager.cds.", "listener_manager.lds."
_LOADED = "/stats?filter=_manager.[cl]ds"
_ERRORS = (aiohttp.ClientError, OSError, TimeoutError)
_REFUSED = "/config_dump?resource=dynamic_listeners&mask=name,error_state.details,active_state.version_info"
_HAS = "/config_dump?resource=dynamic_{}_clusters&mask=cluster.name,cluster.transport_socket"


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


@dataclass(frozen=True)
class Refusals:
    """Why Envoy has not taken listeners, by name."""

    reasons: dict[str, str] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    """Those of them that it does not have in an earlier version either: nobody listens there."""


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
        """Return all counters; None while Envoy does not answer."""
        return await self._stats("/stats")

    async def loaded(self) -> Stats | None:
        """Return only which files Envoy has loaded and rejected; None while it does not answer."""
        return await self._stats(_LOADED)

    async def _stats(self, path: str) -> Stats | None:
        self.gone = False
        text = await self._get(path)
        if text is None:
            return None
        return Stats({name: int(value) for name, value in _LINE.findall(text)}, dict(_TEXT.findall(text)))

    async def clusters(self) -> set[tuple[str, str]] | None:
        """Names of the clusters that Envoy has, with the CA by which each is called; None while it does not answer."""
        found = set[tuple[str, str]]()
        # One that becomes active meanwhile is seen twice, and one that changes with both CAs.
        for state in ("warming", "active"):
            dumped = await self._dump(_HAS.format(state))
            if dumped is None:
                return None
            found |= {(each["cluster"]["name"], ca_of(each["cluster"])) for each in dumped}
        return found

    async def refusals(self) -> Refusals | None:
        """Listeners of its file that Envoy has refused when it read that last; None while it does not answer."""
        found = await self._dump(_REFUSED)
        if found is None:
            return None
        # One that it has not has a second entry, without a name.
        refused = [each for each in found if "error_state" in each and each.get("name")]
        reasons = {each["name"]: str(each["error_state"].get("details", "")) for each in refused}
        return Refusals(reasons, frozenset(each["name"] for each in refused if "active_state" not in each))

    async def _dump(self, path: str) -> list[dict[str, Any]] | None:
        text = await self._get(path)
        try:
            return msgspec.json.decode(text).get("configs", []) if text is not None else None
        except msgspec.DecodeError:
            return None

    async def _get(self, path: str) -> str | None:
        try:
            async with self._http.get(f"http://envoy{path}") as answer:
                text = await answer.text()
                return text if answer.status == 200 else None
        except _ERRORS as error:
            # One whose queue is full is there, too.
            self.gone = isinstance(getattr(error, "os_error", None), FileNotFoundError | ConnectionRefusedError)
            return None
