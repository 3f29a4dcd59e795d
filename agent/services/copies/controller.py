"""Global services: a copy of every shared Service in each target of pods of its namespace (wire contract, 7.1).

Watches  local Services, their copies in targets, Targets that are being removed, chaperons in targets.
Writes   the copies; on an original that cannot be copied, an event and its condition `multicluster/Shared`.
Copies in an absent target stay, and are updated when it returns. Users mark Services as shared, or the controller that
reroutes them does.
"""

from collections.abc import Collection, Iterable
from typing import Any

from agent.api import names
from agent.api.conditions import find_condition, set_condition, without_condition
from agent.api.kinds import SERVICES
from agent.clusters.copies.copying import CopyController, Item
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.store import Object
from agent.model import pod_networks, podranges, serviceimports, sharedcopies
from agent.model.diff import same
from agent.model.service import is_shared

Raw = dict[str, Any]

CONDITION = "multicluster/Shared"
_TOLD = CONDITION.encode()
_SERVING = names.LABEL_SERVING.encode()
_EVERYWHERE = "every cluster that its pods may run in has a copy"
_MESSAGE_LIMIT = 1024


class GlobalServices(CopyController):
    """Reconciles the copy of a Service in one target, or (empty virtual node) the condition of its original."""

    name = "globalsvc"
    kind = SERVICES

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps, deps.local.informer(SERVICES))
        deps.unlabelled.on_turn(lambda place: self.again_in(*place))
        deps.unwritten_marks.subscribe(self._marks_changed)

    def shared(self, original: Object) -> bool:
        """Return whether the annotations of the Service share it."""
        return is_shared(self.deps.unwritten_marks.annotations(original))

    async def content(self, original: Object) -> Raw | None:
        """Return the Service with all marks that count, written or pending."""
        return self.deps.unwritten_marks.decode(original)

    def wanted_in(self, original: Object, node: str) -> bool:
        """Return whether a target needs the Service. A Service created for callers in another namespace is
        needed only in targets that ServiceLinks name.
        """
        return sharedcopies.linked_in(original, node)

    def seen_from(self, node: str, original: Raw) -> Raw:
        """Return the Service for a target: a derived Service has the selector of that cluster's own export."""
        return serviceimports.seen_from(original, node)

    def wanted(self, original: Raw) -> Raw:
        """Return the copy for a target whose delegates all have the labels of this version."""
        return self._copy(original)

    def wanted_there(self, target: Target, original: Raw, copy: Object | None) -> Raw:
        """Return the copy that a target should have. A selector by exact labels stays."""
        switched = copy is not None and _SERVING in copy.raw
        exact = switched or not self.deps.unlabelled.any(target, original["metadata"]["namespace"])
        networks = pod_networks.read(target.told.annotations).pods if target.told is not None else ()
        return self._copy(original, exact=exact, families=podranges.families(networks))

    def _copy(self, original: Raw, *, exact: bool = True, families: Collection[str] = ()) -> Raw:
        settings = self.deps.settings
        return sharedcopies.service(
            original, settings.cluster_name, self.deps.cluster_uid, exact=exact, families=families
        )

    async def reconcile(self, item: Item) -> float | None:
        """Reconcile one copy, and the condition of its original."""
        again = await super().reconcile(item)
        original = self.originals.store.get(item[1:])
        if original is not None and not original.deleting:
            await self._say(original)
        return again

    def _marks_changed(self, original: Object) -> None:
        for item in self._items(original):
            self.queue.add(item)

    def _items(self, original: Object) -> Iterable[Item]:
        yield from super()._items(original)
        if _TOLD in original.raw:
            yield ("", *original.key)

    async def _say(self, original: Object) -> None:
        problems = self.problems(original.key)
        shared = self.shared(original)
        if not problems and (_TOLD not in original.raw or (shared and not self.is_everywhere(original))):
            return
        old = (original.decode().get("status") or {}).get("conditions") or []
        if shared and problems:
            new = set_condition(old, CONDITION, "False", "Blocked", _words(problems), self.deps.clock.now())
        elif shared and find_condition(old, CONDITION):
            new = set_condition(old, CONDITION, "True", "Copied", _EVERYWHERE, self.deps.clock.now())
        else:
            new = without_condition(old, CONDITION)
        if not same(old, new):
            body = {"metadata": {"resourceVersion": original.version}, "status": {"conditions": new}}
            raw = await self.deps.local.client.patch_raw(
                SERVICES, original.name, body, original.namespace, sub="status"
            )
            self.originals.absorb(raw)


def _words(problems: dict[str, str]) -> str:
    return "; ".join(sorted(problems.values()))[:_MESSAGE_LIMIT]
