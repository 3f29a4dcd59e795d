"""Originals on which Admiralty's agent, here before us, has put a finalizer for each target that it has copied them to.

We put none: what is left of these is taken off while an original is being deleted, once nothing of it is in the target,
and for targets that are no more. Until then the original would stay for ever.
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
        """Let go of what is being deleted as far as a target holds it.

        :param copied: whether there was a copy of ours
        """
        if not original.deleting or target.finalizer not in original.finalizers:
            return
        if not copied:
            await delete_child_of(target, original)
        await self._let_go(original, {target.finalizer})

    async def release(self, original: Object | None) -> None:
        """Take finalizers of targets that are no more from an original that is being deleted."""
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
    """Delete the copy that Admiralty's agent, here before us, has made of an original, if there is one."""
    with contextlib.suppress(NotFound, Conflict):
        found = await target.port.get(original.kind, original.name, original.namespace)
        if copies.parent_uid(found) == original.uid:
            uid = found["metadata"]["uid"]
            await target.port.delete(original.kind, original.name, original.namespace, uid=uid)
