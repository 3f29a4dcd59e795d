"""Delegates that must not run twice: pods that are never restarted, or only after a failure.

The chaperon records the creation beforehand, guarded by the version that was judged. Without the record, a pod that was
created and deleted while no agent watched would leave no trace. If the API server refuses the pod, the record is
removed.
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
    """Knowledge of this process beyond the records. Losing it makes no pod run twice."""

    def __init__(self, client: Client, chaperons: Informer, pods: Informer) -> None:
        self._client = client
        self._chaperons = chaperons
        self._pods = pods
        self._identity = secrets.token_hex(8)
        """Value of the records that this process writes."""
        self._recorded: dict[str, int] = {}
        """UIDs of chaperons with a record whose pod was not seen yet, with the number of pod lists at that time."""
        self._unborn = Recent()
        """UIDs of chaperons whose pod was seen to be deleted and never had a node."""
        pods.subscribe(self._pod_changed)

    def is_unmade(self, chaperon: Object) -> bool:
        """Return whether no pod followed our record: an uninterrupted watch of pods would have shown it."""
        if self._recorded.get(chaperon.uid) != self._pods.lists:
            return False
        annotations = chaperon.decode()["metadata"].get("annotations") or {}
        return bool(annotations.get(names.ANNOTATION_POD_MADE) == self._identity)

    def is_unborn(self, chaperon: Object) -> bool:
        """Return whether the deleted pod never had a node, and so has not run."""
        return chaperon.uid in self._unborn

    def forget(self, chaperon: Object | None) -> None:
        """Forget a chaperon that is being or has been deleted."""
        if chaperon is not None:
            self._recorded.pop(chaperon.uid, None)
            self._unborn.discard(chaperon.uid)

    async def record(self, chaperon: Raw, pod: Raw) -> None:
        """Record that a pod will be created next. Raises Conflict if the chaperon has changed.

        If the pod was refused before, a dry run comes first, so that nothing is written as long as the refusal lasts.
        """
        metadata = chaperon["metadata"]
        if names.ANNOTATION_POD_MADE in (metadata.get("annotations") or {}):
            return
        if is_refused(chaperon.get("status") or {}):
            try:
                await self._client.create_raw(PODS, pod, dry_run=True)
            except BadRequest as error:
                # A webhook that does not support dry runs.
                if "dry run" not in error.message:
                    raise
        # The reply to an earlier attempt may have been lost although it succeeded; its write then causes this conflict.
        again = metadata["uid"] in self._recorded
        self._recorded[metadata["uid"]] = self._pods.lists
        try:
            await self._patch(metadata, self._identity, resourceVersion=metadata["resourceVersion"])
        except (Conflict, NotFound):
            if not again:
                del self._recorded[metadata["uid"]]
            raise

    async def withdraw(self, chaperon: Raw) -> None:
        """Remove the record: the API server has refused the pod, or a foreign pod has its name."""
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
    """Create the delegate. Return the pod and the priority class that had to be left out, mostly empty. Raises
    KubeError.

    :param once: records the creation beforehand; None for a pod that may be recreated
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
