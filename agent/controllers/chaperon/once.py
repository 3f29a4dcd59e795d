"""Delegates that must not run twice: those that are not restarted, or only after a failure.

That one is made is recorded on its chaperon before, over the version that was judged: one that was made and is gone
while no agent looked leaves nothing else behind. Where the API server has refused the pod, the record is withdrawn.
"""

import secrets
from typing import Any

from agent.api import names
from agent.api.kinds import CHAPERONS, PODS
from agent.base.recent import Recent
from agent.kube.client import Client
from agent.kube.errors import BadRequest, Conflict, Forbidden, NotFound
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model import priorityclass
from agent.model.delegatepod import delegate
from agent.model.podstate import is_refused

Raw = dict[str, Any]


class Once:
    """What this process knows beyond the records; losing it makes no pod run twice."""

    def __init__(self, client: Client, chaperons: Informer, pods: Informer) -> None:
        self._client = client
        self._chaperons = chaperons
        self._pods = pods
        self._identity = secrets.token_hex(8)
        """The value of our records."""
        self._recorded: dict[str, int] = {}
        """UIDs of chaperons that we record and whose pod was not seen, to how often pods had been listed then."""
        self._unborn = Recent()
        """UIDs of chaperons whose pod was seen going and had never had a node."""
        pods.subscribe(self._pod_changed)

    def is_unmade(self, chaperon: Object) -> bool:
        """Whether no pod has come of our record: the watch of pods, without a gap since, would have shown it."""
        if self._recorded.get(chaperon.uid) != self._pods.lists:
            return False
        annotations = chaperon.decode()["metadata"].get("annotations") or {}
        return bool(annotations.get(names.ANNOTATION_POD_MADE) == self._identity)

    def is_unborn(self, chaperon: Object) -> bool:
        """Whether the pod that is gone has never had a node, so that it has not run."""
        return chaperon.uid in self._unborn

    def forget(self, chaperon: Object | None) -> None:
        """A chaperon has gone, or is going."""
        if chaperon is not None:
            self._recorded.pop(chaperon.uid, None)
            self._unborn.discard(chaperon.uid)

    async def record(self, chaperon: Raw, pod: Raw) -> None:
        """Record that a pod is made, which follows. Raises Conflict if the chaperon has changed.

        Where it was refused before, it is tried without effect first: that writes nothing as long as it is refused.
        """
        metadata = chaperon["metadata"]
        if names.ANNOTATION_POD_MADE in (metadata.get("annotations") or {}):
            return
        if is_refused(chaperon.get("status") or {}):
            try:
                await self._client.create_raw(PODS, pod, dry_run=True)
            except BadRequest as error:
                # A webhook that cannot be tried so.
                if "dry run" not in error.message:
                    raise
        # An attempt before this one may have been heard though its answer was lost: that is what changed the chaperon.
        again = metadata["uid"] in self._recorded
        self._recorded[metadata["uid"]] = self._pods.lists
        try:
            await self._patch(metadata, self._identity, resourceVersion=metadata["resourceVersion"])
        except (Conflict, NotFound):
            if not again:
                del self._recorded[metadata["uid"]]
            raise

    async def withdraw(self, chaperon: Raw) -> None:
        """No pod was made: the API server has refused it, or the name is another's."""
        metadata = chaperon["metadata"]
        if self._recorded.pop(metadata["uid"], None) is not None:
            await self._patch(metadata, None)

    async def _patch(self, metadata: Raw, value: str | None, **guard: str) -> None:
        body = {"metadata": {"uid": metadata["uid"], **guard, "annotations": {names.ANNOTATION_POD_MADE: value}}}
        raw = await self._client.patch_raw(CHAPERONS, metadata["name"], body, metadata["namespace"])
        self._chaperons.absorb(raw)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        if pod is None or pod.controller is None:
            return
        uid = pod.controller.uid
        if new is not None:
            self._recorded.pop(uid, None)
            self._unborn.discard(uid)
        elif not pod.node_name and not self._pods.relisting:
            self._unborn.add(uid)


async def made(client: Client, once: Once | None, chaperon: Raw) -> tuple[bytes, str]:
    """The pod that was created, and the class without which it was, mostly none. Raises KubeError.

    :param once: where it is recorded before; None for a pod that may be made again
    """
    pod, recorded = delegate(chaperon), once is None
    try:
        if once is not None:
            await once.record(chaperon, pod)
            recorded = True
        return await client.create_raw(PODS, pod), ""
    except Forbidden as error:
        lacks = priorityclass.lacking(chaperon, error.message)
        if not lacks:
            raise
    pod = priorityclass.without(pod)
    if once is not None and not recorded:
        await once.record(chaperon, pod)
    return await client.create_raw(PODS, pod), lacks
