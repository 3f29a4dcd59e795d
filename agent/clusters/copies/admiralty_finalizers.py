"""Originals that carry finalizers of Admiralty's agent, which ran in this cluster before Flotilla.

That agent added one finalizer for each target that it copied an original to. Flotilla adds none. It removes
these finalizers while an original is being deleted: once the target has no copy of it, and for targets that no
longer exist. Otherwise the original would remain forever.
"""

import contextlib

from agent.api import names
from agent.clusters.target import Target
from agent.kube.both_scopes import EitherScope
from agent.kube.client import Client
from agent.kube.errors import Conflict, NotFound
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model import copies, podstate


class AdmiraltyFinalizers:
    """Finds originals of one kind that carry such finalizers, and removes these. Methods raise KubeError."""

    def __init__(self, client: Client, originals: Informer, targets: EitherScope) -> None:
        self._client = client
        self._originals = originals
        self._targets = targets

    async def withdraw(self, original: Object, target: Target, *, copied: bool) -> None:
        """Remove a target's finalizer from an original that is being deleted.

        :param copied: whether Flotilla has made a copy of it
        """
        if not original.deleting or target.finalizer not in original.finalizers:
            return
        if not copied:
            await delete_child_of(target, original)
        await self._let_go(original, {target.finalizer})

    async def release(self, original: Object | None) -> None:
        """Remove finalizers of deleted targets from an original that is being deleted."""
        if original is not None and original.deleting:
            known = {names.finalizer(*obj.key) for obj in self._targets}
            unknown = set(podstate.target_finalizers(original.finalizers)) - known
            if unknown:
                await self._let_go(original, unknown)

    async def _let_go(self, original: Object, finalizers: set[str]) -> None:
        rest = [each for each in original.finalizers if each not in finalizers]
        body = {"metadata": {"resourceVersion": original.version, "finalizers": rest or None}}
        with contextlib.suppress(NotFound):
            raw = await self._client.patch_raw(original.kind, original.name, body, original.namespace)
            self._originals.absorb(raw)


async def delete_child_of(target: Target, original: Object) -> None:
    """Delete the copy that Admiralty's agent has made of an original, if it exists."""
    with contextlib.suppress(NotFound, Conflict):
        found = await target.port.get(original.kind, original.name, original.namespace)
        if copies.parent_uid(found) == original.uid:
            uid = found["metadata"]["uid"]
            await target.port.delete(original.kind, original.name, original.namespace, uid=uid)
