"""Client of Envoy's admin interface, through a socket in the directory that both processes share."""

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
    """Envoy's counters, and the versions of its loaded files."""

    counters: Counters
    texts: dict[str, str] = field(default_factory=dict)

    def version(self, *, listeners: bool) -> str:
        """Return the version of the last file that Envoy has loaded completely."""
        return self.texts.get((_LISTENERS if listeners else _CLUSTERS) + "version_text", "")

    @property
    def listens(self) -> bool:
        """Whether Envoy accepts connections: at its start it first loads its files and checks all peers once."""
        return self.counters.get("listener_manager.workers_started", 0) > 0

    def rejected(self, *, listeners: bool) -> int:
        """Return the number of times that Envoy has refused a file or a part of it."""
        return self.counters.get((_LISTENERS if listeners else _CLUSTERS) + "update_rejected", 0)


@dataclass(frozen=True)
class Refusals:
    """Listeners that Envoy has refused, with the reasons, by name."""

    reasons: dict[str, str] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    """Refused listeners without an earlier version in Envoy, so that their ports are closed."""


class Admin:
    """Client of Envoy's admin interface; use it as a context manager."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._http: aiohttp.ClientSession
        self.gone = False
        """Whether Envoy did not run at the last request; False if it was only slow to answer."""

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession(connector=aiohttp.UnixConnector(self._path), timeout=_TIMEOUT)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()

    async def stats(self) -> Stats | None:
        """Return all counters; None if Envoy does not answer."""
        return await self._stats("/stats")

    async def loaded(self) -> Stats | None:
        """Return only the versions and rejections of files; None if Envoy does not answer."""
        return await self._stats(_LOADED)

    async def _stats(self, path: str) -> Stats | None:
        self.gone = False
        text = await self._get(path)
        if text is None:
            return None
        return Stats({name: int(value) for name, value in _LINE.findall(text)}, dict(_TEXT.findall(text)))

    async def clusters(self) -> set[tuple[str, str]] | None:
        """Return Envoy's clusters by name, with the CA of each; None if Envoy does not answer."""
        found = set[tuple[str, str]]()
        # A cluster that becomes active between the two requests is in both; one that changes then is in the set
        # with both CAs.
        for state in ("warming", "active"):
            dumped = await self._dump(_HAS.format(state))
            if dumped is None:
                return None
            found |= {(each["cluster"]["name"], ca_of(each["cluster"])) for each in dumped}
        return found

    async def refusals(self) -> Refusals | None:
        """Return the listeners that Envoy refused when it last read its file; None if it does not answer."""
        found = await self._dump(_REFUSED)
        if found is None:
            return None
        # A listener that Envoy does not have has a second entry without a name.
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
            # An Envoy whose queue of connections is full runs, too.
            self.gone = isinstance(getattr(error, "os_error", None), FileNotFoundError | ConnectionRefusedError)
            return None
