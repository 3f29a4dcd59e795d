"""The calls that make a copy in a target, keep it right and take it away."""

import contextlib
from typing import Any

from agent.api import names
from agent.api.kinds import SECRETS, Kind
from agent.clusters.deps import Deps
from agent.clusters.refusals import NOT_OURS, Blocked, not_copied, reporting_refusals
from agent.clusters.target import Target
from agent.kube.errors import AlreadyExists, Conflict, NotFound
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model import copies, sharedcopies
from agent.model.diff import equivalent

Raw = dict[str, Any]


class Copier:
    """Everything raises KubeError, which another try may overcome, or Blocked."""

    def __init__(self, deps: Deps, kind: Kind, target: Target, found: Informer) -> None:
        self._deps = deps
        self._kind = kind
        self.target = target
        self._copies = found
        self._client = target.port

    async def bring(self, wanted: Raw, original: Raw, copy: Object | None) -> Object | None:
        """Make the copy what is wanted; None where the target has the original itself, or what that is a copy of."""
        metadata = wanted["metadata"]
        title = f"{self._kind.name} {metadata['namespace']}/{metadata['name']}"
        with reporting_refusals(title, self.target, self._kind):
            if copy is None:
                try:
                    return self._copies.absorb(await self._client.create_raw(self._kind, wanted))
                except AlreadyExists:
                    raw = await self._client.get_raw(self._kind, metadata["name"], metadata["namespace"])
                    copy = Object(self._kind, raw)
                    if not self._is_ours(title, copy.decode(), original):
                        return None
            return await self._revise(copy, wanted)

    async def remove(self, copy: Object) -> None:
        """Delete this very copy."""
        with (
            reporting_refusals(f"{self._kind.name} {copy.namespace}/{copy.name}", self.target, self._kind),
            contextlib.suppress(NotFound, Conflict),
            self._copies.vanished.noticed(copy.key, copy.uid),
        ):
            await self._client.delete(self._kind, copy.name, copy.namespace, uid=copy.uid)

    async def remove_child_of(self, original: Object) -> None:
        """Delete the copy that Admiralty's agent has made of an original, if there is one."""
        with contextlib.suppress(NotFound, Conflict):
            found = await self._client.get(self._kind, original.name, original.namespace)
            if copies.parent_uid(found) == original.uid:
                uid = found["metadata"]["uid"]
                await self._client.delete(self._kind, original.name, original.namespace, uid=uid)

    async def _revise(self, found: Object, wanted: Raw) -> Object:
        copy = (
            await self._client.get(self._kind, found.name, found.namespace) if self._kind == SECRETS else found.decode()
        )
        body = sharedcopies.merged(copy, wanted)
        if sharedcopies.must_be_replaced(copy, wanted):
            with self._copies.vanished.noticed(found.key, found.uid):
                await self._client.delete(self._kind, found.name, found.namespace, uid=found.uid)
            return self._copies.absorb(await self._client.create_raw(self._kind, wanted))
        if equivalent(copy, body):
            return found
        return self._copies.absorb(await self._client.update_raw(self._kind, body))

    def _is_ours(self, title: str, found: Raw, original: Raw) -> bool:
        if copies.is_same_or_upstream(found, original) or self._serves_pods(found):
            return False
        if copies.belongs_to(found, original["metadata"]["uid"], self._deps.cluster_uid):
            return True
        raise Blocked(not_copied(title, self.target, NOT_OURS))

    def _serves_pods(self, found: Raw) -> bool:
        """Whether a Secret is there already, because pods name it, and is kept right for them."""
        labels = found["metadata"].get("labels") or {}
        return self._kind == SECRETS and labels.get(names.LABEL_PARENT_CLUSTER_UID) == self._deps.cluster_uid
