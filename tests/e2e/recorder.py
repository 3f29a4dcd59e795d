"""Record every version of objects in one cluster, in the order in which its API server wrote them."""

import asyncio
import contextlib
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from agent.api.kinds import Kind
from agent.kube.client import Client
from agent.kube.errors import Unreachable

Raw = dict[str, Any]


class Version(NamedTuple):
    """A version of an object. API servers number versions of all kinds by one counter, the revision of etcd."""

    number: int
    kind: Kind
    obj: Raw
    deleted: bool


class Moment(NamedTuple):
    """All recorded objects by kind and UID, from one version until the next."""

    number: int
    objects: defaultdict[Kind, dict[str, Raw]]


def moments(versions: Iterable[Version]) -> Iterator[Moment]:
    """Yield one moment for each version. The objects of a moment are valid until the next one is asked for. Pure."""
    found: defaultdict[Kind, dict[str, Raw]] = defaultdict(dict)
    for each in sorted(versions, key=lambda version: version.number):
        uid = each.obj["metadata"]["uid"]
        if each.deleted:
            found[each.kind].pop(uid, None)
        else:
            found[each.kind][uid] = each.obj
        yield Moment(each.number, found)


@contextlib.asynccontextmanager
async def recording(client: Client, namespace: str, kinds: Sequence[Kind]) -> AsyncIterator[list[Version]]:
    """Record each new version of these kinds in a namespace; yield the growing list."""
    versions: list[Version] = []
    begun = [await client.version(kind, namespace) for kind in kinds]
    tasks = [
        asyncio.create_task(_record(client, namespace, kind, number, versions))
        for kind, number in zip(kinds, begun, strict=True)
    ]
    try:
        yield versions
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended), f"a watch has failed: {ended}"


async def _record(client: Client, namespace: str, kind: Kind, number: str, versions: list[Version]) -> None:
    """Add versions after a number until cancelled. A stream that ends is resumed, so that no version is missed."""
    while True:
        params = {"watch": "1", "resourceVersion": number, "allowWatchBookmarks": "true"}
        with contextlib.suppress(Unreachable):
            async with client.session.stream(kind.path(namespace), params=params) as lines:
                async for line in lines:
                    event = json.loads(line)
                    assert event["type"] != "ERROR", f"{kind.name}: {event['object']}"
                    number = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        versions.append(Version(int(number), kind, event["object"], event["type"] == "DELETED"))
        await asyncio.sleep(0.1)
