"""Trial of one manifest: apply it to a plain cluster and, elected, to a source; compare both at rest; delete it."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.api.kinds import ENDPOINT_SLICES, PERSISTENT_VOLUME_CLAIMS, PODS, SERVICES, Kind
from agent.api.names import ANNOTATION_MANIFEST, ANNOTATION_ORIGINAL_SELECTOR
from agent.base.backoff import Backoff
from agent.kube.client import Client
from agent.kube.errors import KubeError
from hack.lab.corpus.compare import CONFIGURED, changed, differences, excused, uneven
from hack.lab.corpus.contents import Contents
from hack.lab.corpus.errors import CorpusError
from hack.lab.corpus.files import File
from hack.lab.corpus.ground import Ground, Place
from hack.lab.corpus.views import ENDPOINTS, View, left, view

Raw = dict[str, Any]

PATIENCE_SECONDS = 60.0
QUIET_SECONDS = 5.0
"""Seconds without a change after which a plain cluster with unready objects counts as at rest."""
STEADY_SECONDS = 0.6
"""Seconds without a change after which a plain cluster with ready objects counts as at rest."""
_FIRST_SECONDS, _LONGEST_SECONDS = 1.4, 2.1
"""Shortest and longest pause between two comparisons, in seconds. Pauses grow, since each reads some hundred lists."""
_MADE_BY_CONTROLLERS = (
    PODS.plural,
    "replicasets",
    "jobs",
    ENDPOINTS.plural,
    ENDPOINT_SLICES.plural,
    PERSISTENT_VOLUME_CLAIMS.plural,
)


@dataclass(frozen=True)
class Result:
    """Result of one manifest."""

    file: File
    unlike: Sequence[str] = field(default=())
    """Differences; empty if both clusters are alike."""
    waits: Sequence[str] = field(default=())
    """Objects that the plain cluster refuses as well, or that do not become ready in it either."""
    rewritten: int = 0
    """Number of rewritten Services and bare pods for which a second apply prints `configured`."""


async def trial(ground: Ground, file: File, patience: float = PATIENCE_SECONDS) -> Result:
    """Apply, compare, apply again, compare, delete, compare the remaining objects.

    :raises CorpusError: if an object of the manifest exists already: the trial would change and delete it
    :raises BenchError, KubeError: if the trial fails
    """
    async with ground.namespaces(file.namespaces) as before:
        for place in (ground.plain, ground.source):
            ours = {*file.namespaces} - before[place.client]
            if there := await place.contents.foreign(file.objects, file.home, ours):
                raise CorpusError(
                    f"{place.client.name} has {', '.join(there)}, which is left alone: delete it there, or take another"
                    " sandbox"
                )
        return await _Trial(ground, file, patience).run()


class _Trial:
    def __init__(self, ground: Ground, file: File, patience: float) -> None:
        self._ground = ground
        self._file = file
        self._patience = patience
        self._places = (ground.plain, ground.source)
        self._before: dict[Client, frozenset[str]] = {}
        self._virtual: frozenset[str] = frozenset()
        self._configured = 0
        self._refused: tuple[str, ...] = ()

    async def run(self) -> Result:
        """Run all steps of the trial in order."""
        self._virtual = await self._ground.source.contents.virtual_nodes()
        for contents in (*(place.contents for place in self._places), *self._ground.targets):
            self._before[contents.client] = frozenset(_uid(obj) for obj in await self._all(contents))
        try:
            found = await self._applied("applied")
            unlike, waits = await self._settled()
            found += unlike
            found += await self._applied("applied again", await self._rewritten())
            if not unlike:
                found += [f"after it was applied again: {each}" for each in (await self._settled())[0]]
        except BaseException:
            await asyncio.gather(*(self._wipe(place) for place in self._places))
            raise
        return Result(self._file, [*found, *await self._deleted()], [*self._refused, *waits], self._configured)

    async def _applied(self, when: str, rewritten: Collection[str] = ()) -> list[str]:
        if when != "applied" and self._file.generated:
            return []
        plain, elected = await asyncio.gather(*(place.kubectl.apply(self._file) for place in self._places))
        if when == "applied" and any(obj["kind"] == "CustomResourceDefinition" for obj in self._file.objects):
            await asyncio.gather(*(place.contents.kinds(anew=True) for place in self._places))
        self._refused = self._refused or plain.errors
        if self._file.generated:
            return uneven(when, plain.errors, elected.errors)
        lines = [excused(line, plain.lines, rewritten) for line in elected.lines]
        self._configured += sum(line.endswith(CONFIGURED) for line in {*elected.lines} - {*lines})
        return [*uneven(when, plain.lines, lines), *uneven(when, plain.errors, elected.errors)]

    async def _settled(self) -> tuple[list[str], Sequence[str]]:
        """Wait until both clusters are at rest. Return their differences, and the objects for which the plain
        one still waits.
        """
        deadline = time.monotonic() + self._patience
        seen: tuple[View, View] | None = None
        versions: Mapping[str, str] = {}
        since = time.monotonic()
        pause = Backoff(_FIRST_SECONDS, _LONGEST_SECONDS)
        while True:
            plain, elected = looked = await self._views(self._watched())
            before, versions = versions, await self._versions()
            written = changed(before, versions)
            if seen is None or written or (plain.objects, elected.objects) != (seen[0].objects, seen[1].objects):
                seen, since = looked, time.monotonic()
            # Changes that no controller has begun yet do not show as differences either.
            rests = time.monotonic() - since > (STEADY_SECONDS if plain.ready else QUIET_SECONDS)
            over = time.monotonic() > deadline
            if over or (rests and not differences(plain, elected)):
                plain, elected = await self._views()
                found = [*differences(plain, elected), *written]
                if over or not found:
                    return found, plain.waits
            await asyncio.sleep(pause.next())

    async def _versions(self) -> dict[str, str]:
        """Return the version of each Service in all clusters, by its name and cluster."""
        found = {}
        for contents in (*(place.contents for place in self._places), *self._ground.targets):
            for each in await contents.of(self._file.namespaces, (SERVICES,)):
                metadata = each["metadata"]
                name = f"{SERVICES.name} {metadata['namespace']}/{metadata['name']} in {contents.client.name}"
                found[name] = str(metadata["resourceVersion"])
        return found

    def _watched(self) -> frozenset[str]:
        return frozenset((*_MADE_BY_CONTROLLERS, *(obj["kind"] for obj in self._file.objects)))

    async def _views(self, watched: Collection[str] = ()) -> tuple[View, View]:
        plain, elected = await asyncio.gather(*(self._new(place, watched) for place in self._places))
        return view(plain), view(elected, self._virtual)

    async def _new(self, place: Place, watched: Collection[str] = ()) -> list[Raw]:
        """Return the objects that a cluster has gained; of cluster-scoped objects only those of the manifest."""
        kinds = [each for each in await place.contents.kinds() if {each.plural, each.name} & {*watched}]
        named = await place.contents.named(self._file.objects)
        return [*await self._all(place.contents, kinds, place.client), *named]

    async def _all(self, contents: Contents, kinds: Sequence[Kind] = (), since: Client | None = None) -> list[Raw]:
        before = self._before[since] if since is not None else frozenset()
        return [obj for obj in await contents.of(self._file.namespaces, kinds) if _uid(obj) not in before]

    async def _rewritten(self) -> frozenset[str]:
        """Return the objects that the agent rewrites on purpose: Services with another selector, bare proxy pods.

        kubectl compares them with their manifest and prints `configured`.
        """
        found: set[str] = set()
        for kind, annotation in ((SERVICES, ANNOTATION_ORIGINAL_SELECTOR), (PODS, ANNOTATION_MANIFEST)):
            for namespace in self._file.namespaces:
                for each in await self._ground.source.client.list(kind, namespace):
                    if annotation in (each["metadata"].get("annotations") or {}):
                        found.add(f"{kind.name.lower()}/{each['metadata']['name']}")
        return frozenset(found)

    async def _deleted(self) -> list[str]:
        """Delete the manifest. Return differences between the remaining objects, and objects that never disappear."""
        if self._file.generated:
            await asyncio.gather(*(self._wipe(place) for place in self._places))
        else:
            await asyncio.gather(*(place.kubectl.delete(self._file) for place in self._places))
        found = await self._waited(self._unevenly_left)
        await asyncio.gather(*(self._wipe(place) for place in self._places))
        return found + await self._waited(self._still_there)

    async def _waited(self, look: Callable[[], Awaitable[list[str]]]) -> list[str]:
        deadline = time.monotonic() + self._patience
        pause = Backoff(_FIRST_SECONDS, _LONGEST_SECONDS)
        while True:
            found = await look()
            if not found or time.monotonic() > deadline:
                return found
            await asyncio.sleep(pause.next())

    async def _unevenly_left(self) -> list[str]:
        plain, elected = await asyncio.gather(*(self._new(place) for place in self._places))
        return uneven("left after deletion", left(plain), left(elected))

    async def _still_there(self) -> list[str]:
        found = []
        for place in self._places:
            found += [f"{place.client.name} keeps {each}" for each in left(await self._new(place))]
        for contents in self._ground.targets:
            objects = await self._all(contents, since=contents.client)
            found += [f"{contents.client.name} keeps {each}" for each in left(objects)]
        for contents in (self._ground.source.contents, *self._ground.targets):
            volumes = await contents.volumes(self._file.namespaces)
            found += [f"{contents.client.name} keeps {each}" for each in left(volumes)]
        return sorted({*found})

    async def _wipe(self, place: Place) -> None:
        """Delete the remaining objects of the manifest in the cluster to which it was applied."""
        by_name: Mapping[tuple[str, str], Kind] = {
            (each.api_version, each.name): each for each in await place.contents.kinds()
        }
        for obj in await self._new(place):
            kind = by_name.get((obj["apiVersion"], obj["kind"]))
            if kind is None or obj["metadata"].get("ownerReferences") or obj["kind"] == "Namespace":
                continue
            metadata = obj["metadata"]
            with contextlib.suppress(KubeError):
                await place.client.delete(kind, metadata["name"], metadata.get("namespace"), propagation="Background")


def _uid(obj: Raw) -> str:
    return str(obj["metadata"].get("uid") or obj["metadata"]["name"])
