"""Pods that run as accounts of Sources: listed from the API server, and deleted if their account was revoked.

Watches  nothing.
Writes   deletions of delegates that have outlived their account, each with an event.
"""

import asyncio
import logging
from collections.abc import Iterable

from agent.api.kinds import PODS
from agent.clusters.deps import Deps
from agent.kube.client import METADATA_LIST
from agent.kube.errors import Conflict, NotFound
from agent.kube.store import Key, Object
from agent.model import podpolicy
from agent.model.podstate import OTHER_PODS
from agent.targets.source.occupants import GRACE_SECONDS, Account, Occupant, Occupation, is_delegate, occupant

log = logging.getLogger(__name__)

_NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"
_AT_ONCE = 20
"""Most pods that are deleted concurrently; others follow in the next reconciliation."""


class AccountPods:
    """Live lists of the pods that run as an account: a store may be seconds behind."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._client = deps.local.client

    async def occupation(self, account: Account, *, is_granted: bool) -> Occupation:
        """List the pods that run as an account. Proxy pods do not count, since they run in other clusters.

        The kubelet first reports the end of a pod, then unmounts its volumes, then deletes it. So terminating pods
        count until their deletion while the account does not exist.
        """
        pods = await self._list(account.key, _NOT_ENDED)
        if account.since is None:
            known = {pod.uid for pod in pods}
            ending = (pod for pod in await self._list(account.key) if pod.ends is not None)
            pods += [pod for pod in ending if pod.uid not in known]
        return Occupation(account, is_granted, pods)

    async def _list(self, account: Key, *more: str) -> list[Occupant]:
        fields = ",".join((f"spec.serviceAccountName={_escaped(account[1])}", OTHER_PODS, *more))
        _, items = await self._client.list_raw(PODS, account[0], fields=fields, accept=METADATA_LIST)
        return [occupant(Object(PODS, bytes(item))) for item in items]

    async def revoke(self, found: Iterable[Occupation], title: str) -> None:
        """Delete the delegates that have outlived their account, which was deleted to void all tokens.

        :param title: kind and name of the Source
        """
        now = self._deps.clock.now()
        pods = [(each.account.key, pod) for each in found for pod in each.to_delete(now)]
        await asyncio.gather(*(self._delete(account, pod, title) for account, pod in pods[:_AT_ONCE]))

    async def _delete(self, account: Key, pod: Occupant, title: str) -> None:
        """Delete a pod, unless it has been recreated or is no longer a PodChaperon's."""
        try:
            live = Object(PODS, await self._client.get_raw(PODS, pod.name, account[0]))
        except NotFound:
            return
        raw = live.decode()
        if live.uid != pod.uid or not is_delegate(live) or podpolicy.account_of(raw.get("spec")) != account[1]:
            return
        grace = min(GRACE_SECONDS, raw["spec"].get("terminationGracePeriodSeconds") or 0)
        message = (
            f"deleted, for it ran as ServiceAccount {'/'.join(account)}, by which {title} acts in this cluster, and"
            " that account was deleted to void its tokens: have the pod name another service account"
        )
        try:
            await self._client.delete(PODS, pod.name, account[0], uid=pod.uid, grace=grace)
        except (NotFound, Conflict):
            return
        log.warning("pod %s/%s %s", account[0], pod.name, message)
        self._deps.recorder.event(raw, "Warning", "AccountRevoked", message)


def _escaped(value: str) -> str:
    """Escape a value for a field selector (k8s.io/apimachinery/pkg/fields: EscapeValue)."""
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
