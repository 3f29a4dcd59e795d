"""The census: all delegates that ever existed in any cluster, and proxy pods that had two at the same time."""

import asyncio
import functools
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from agent.api.kinds import PODS
from agent.api.names import LABEL_PARENT_UID, SCHEDULER_CANDIDATE
from agent.kube.client import Client
from agent.kube.errors import KubeError, NotFound
from agent.kube.informer import Informer
from agent.kube.store import Object


@dataclass(frozen=True)
class Delegate:
    """A delegate pod."""

    cluster: str
    namespace: str
    name: str
    uid: str
    parent_uid: str


def is_candidate(pod: Object) -> bool:
    """Check that a delegate may not start yet (mode `reserve`)."""
    return pod.scheduler_name == SCHEDULER_CANDIDATE and not pod.node_name


@dataclass
class Census:
    """Watches the delegates of all clusters during a whole session.

    Watches of two clusters may differ in delay. Two delegates of one proxy pod therefore count only if both API
    servers confirm that they exist. Unbound candidates do not count: a proxy pod may have several.
    """

    clients: dict[str, Client]
    living: dict[str, Delegate] = field(default_factory=dict)
    born: dict[str, Delegate] = field(default_factory=dict)
    gone: dict[str, Delegate] = field(default_factory=dict)
    duplicates: list[str] = field(default_factory=list)
    _by_parent: dict[str, set[Delegate]] = field(default_factory=lambda: defaultdict(set))
    _suspects: asyncio.Queue[tuple[Delegate, ...]] = field(default_factory=asyncio.Queue)

    async def run(self) -> None:
        """Record delegates until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._check())
            for name, client in self.clients.items():
                informer = Informer(client, PODS, labels=LABEL_PARENT_UID)
                informer.subscribe(functools.partial(self._changed, name))
                group.create_task(informer.run())

    def of(self, namespace: str, records: Iterable[Delegate] | None = None) -> list[Delegate]:
        """Return the delegates of a namespace among `records`; None: among the living ones."""
        return [each for each in (self.living.values() if records is None else records) if each.namespace == namespace]

    def take_duplicates(self) -> list[str]:
        """Return and reset the duplicates, so that each test sees only its own."""
        found, self.duplicates = self.duplicates, []
        return found

    def forget(self, namespace: str) -> None:
        """Forget a namespace's records, since another test uses it now."""
        for records in (self.born, self.gone):
            for each in self.of(namespace, tuple(records.values())):
                del records[each.uid]

    def check(self, namespace: str, *, at_most: int | None = None, may_end: bool = False) -> None:
        """Check that no proxy pod had two delegates, that at most `at_most` were created, and, unless
        `may_end`, that none ended."""
        assert self.duplicates == []
        if not may_end:
            assert self.of(namespace, self.gone.values()) == [], "delegates ended although nobody deleted their pods"
        if at_most is not None:
            born = self.of(namespace, self.born.values())
            assert len(born) <= at_most, f"{len(born)} delegates were made of {at_most} pods"

    def _changed(self, cluster: str, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        if new is not None and is_candidate(new):
            new = None
        delegate = Delegate(cluster, obj.namespace, obj.name, obj.uid, obj.labels[LABEL_PARENT_UID])
        if old is not None and (new is None or new.uid != old.uid) and old.uid in self.living:
            before = self.living.pop(old.uid)
            self._by_parent[before.parent_uid].discard(before)
            self.gone[before.uid] = before
        if new is not None and new.uid not in self.living:
            self.living[new.uid] = self.born[new.uid] = delegate
            siblings = self._by_parent[delegate.parent_uid]
            siblings.add(delegate)
            if len(siblings) > 1:
                self._suspects.put_nowait(tuple(siblings))

    async def _check(self) -> None:
        while True:
            siblings = await self._suspects.get()
            alive = [each for each in siblings if await self._exists(each)]
            if len(alive) > 1:
                self.duplicates.append(" and ".join(f"{each.cluster}/{each.name}" for each in alive))

    async def _exists(self, delegate: Delegate) -> bool:
        while True:
            try:
                pod = await self.clients[delegate.cluster].get(PODS, delegate.name, delegate.namespace)
            except NotFound:
                return False
            except KubeError:
                await asyncio.sleep(0.2)
            else:
                return bool(pod["metadata"]["uid"] == delegate.uid)
