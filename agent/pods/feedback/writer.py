"""Writes of feedback: each action on the proxy pod or a chaperon, guarded by UIDs and versions."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from agent.api.kinds import CHAPERONS, PODS
from agent.clusters.deps import Deps
from agent.clusters.stores import chaperons
from agent.clusters.target import Target
from agent.kube.errors import Conflict, Forbidden, Invalid, NotFound, Unreachable
from agent.kube.store import Key, Object
from agent.model import deletion
from agent.pods.feedback.view import (
    GONE,
    Action,
    DeleteChaperon,
    DeleteProxy,
    EndProxy,
    PatchProxy,
    ProxyAndDelegates,
    ReleaseProxy,
    ShortenGrace,
    TargetChaperon,
    Withdraw,
)

log = logging.getLogger(__name__)


class Writer:
    """Carries out what `decide` returns."""

    def __init__(self, deps: Deps, refused: Callable[[Key], None], not_withdrawn: Callable[[str], None]) -> None:
        """:param refused: called with a proxy pod whose API server refuses the last status of its delegate
        :param not_withdrawn: called with the UID of a proxy pod whose target refuses to withdraw the delegate
        """
        self._deps = deps
        self._client = deps.local.client
        self._proxies = deps.proxies.informer
        self._refused = refused
        self._not_withdrawn = not_withdrawn

    async def apply(self, key: Key, view: ProxyAndDelegates, targets: dict[str, Target], action: Action) -> str:
        """Carry out an action; return the proxy pod's new version, empty if unknown."""
        match action:
            case DeleteChaperon(delegate):
                if not await self._is_at_home_too(view, targets, delegate):
                    await chaperons.delete(targets[delegate.finalizer], delegate.chaperon, as_it_was=delegate.lost)
            case PatchProxy(patch, status, last):
                return await self._written(key, self._deps.proxies.bring_home(key, patch, status=status), last=last)
            case ReleaseProxy(finalizers, status) if view.proxy is not None:
                metadata = view.proxy["metadata"]
                uid, version = metadata["uid"], metadata["resourceVersion"]
                return await self._written(key, self._deps.proxies.release(key, uid, version, finalizers, status))
            case Withdraw(delegate, grace):
                await self._withdraw(view, targets[delegate.finalizer], delegate, grace)
            case ShortenGrace(delegate, seconds):
                patch = deletion.grace_patch(delegate.chaperon, seconds)
                await self._patch_chaperon(targets[delegate.finalizer], delegate, patch)
            case EndProxy() if view.proxy is not None:
                await self._delete_proxy(key, view.proxy)
            case DeleteProxy(why) if view.proxy is not None:
                if why != GONE or await self._has_gone(targets[view.home], view.proxy):
                    log.info("deleting the proxy pod: %s", why)
                    self._deps.recorder.event(view.proxy, "Warning", "DelegateLost", f"{why}: this pod is deleted, too")
                    await self._delete_proxy(key, view.proxy)
            case _:
                pass
        return ""

    async def _withdraw(
        self, view: ProxyAndDelegates, target: Target, delegate: TargetChaperon, grace: int | None
    ) -> None:
        """Take the delegate out of Services. If its target refuses that, the delegate ends without a pause."""
        patch = deletion.withdrawal_patch(delegate.chaperon, grace)
        if not await self._patch_chaperon(target, delegate, patch) and view.proxy is not None:
            self._not_withdrawn(view.proxy["metadata"]["uid"])

    async def _patch_chaperon(self, target: Target, delegate: TargetChaperon, patch: dict[str, Any]) -> bool:
        """Return whether it was written; False if the chaperon has been deleted, or its target refuses the change."""
        metadata = delegate.chaperon["metadata"]
        try:
            raw = await target.port.patch_raw(CHAPERONS, metadata["name"], patch, metadata["namespace"])
        except (Forbidden, Invalid, NotFound) as error:
            log.info("target %s: the end of a delegate is not announced: %s", target.title, error)
            return False
        except Unreachable:
            target.probe_now()
            raise
        target.chaperons.absorb(raw)
        return True

    async def _is_at_home_too(
        self, view: ProxyAndDelegates, targets: dict[str, Target], delegate: TargetChaperon
    ) -> bool:
        """Return whether an apparent stray is the delegate itself, seen through another Target of the same cluster."""
        home = targets.get(view.home)
        if home is None or delegate.finalizer == view.home or view.proxy is None:
            return False
        proxy, chaperon = view.proxy["metadata"], delegate.chaperon["metadata"]
        if "deletionTimestamp" in proxy or delegate.parent_uid != proxy["uid"]:
            return False
        try:
            raw = await home.port.get_raw(CHAPERONS, chaperon["name"], chaperon["namespace"])
        except NotFound:
            return False
        return bool(Object(CHAPERONS, raw).uid == chaperon["uid"])

    async def _written(self, key: Key, write: Awaitable[Object], *, last: bool = False) -> str:
        """Write; return the proxy pod's new version, empty if the pod has been deleted."""
        try:
            return (await write).version
        except NotFound:
            return ""
        except Invalid as error:
            pod = self._proxies.store.get(key)
            if pod is not None:
                message = f"the API server refuses the delegate's status: {error.message}"
                self._deps.recorder.event(pod.decode(), "Warning", "StatusRefused", message)
            if not last:
                raise
            self._refused(key)
            return ""

    async def _has_gone(self, target: Target, proxy: dict[str, Any]) -> bool:
        metadata = proxy["metadata"]
        return not await self._deps.live_reads.has(target, metadata["namespace"], metadata["uid"])

    async def _delete_proxy(self, key: Key, proxy: dict[str, Any]) -> None:
        try:
            with self._proxies.vanished.noticed(key, proxy["metadata"]["uid"]):
                await self._client.delete(PODS, key[1], key[0], uid=proxy["metadata"]["uid"], grace=0)
        except (NotFound, Conflict):
            return
