"""Source: give the clusters that a Source or ClusterSource names the rights they need here.

Watches  Sources, ClusterSources, the service accounts and bindings with our label, and each service account without
         it that a Source names.
Writes   the service account (created if absent, never changed), the bindings, and the Source's condition Ready.
Bindings whose Source is gone are found by their label, also when it went while no agent ran: nothing waits for a
finalizer of ours, so that deleting a Source or its namespace never hangs.
"""

import contextlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from agent.api import conditions
from agent.api.kinds import CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS, SERVICE_ACCOUNTS, SOURCE_KINDS, Kind
from agent.api.names import ANNOTATION_SOURCE, LABEL_SOURCE
from agent.clusters.deps import Deps
from agent.controllers.source import decide
from agent.controllers.source.decide import Action, Create, Delete, Key, Patch, Raw, Roles, SourceAndBindings
from agent.kube.errors import AlreadyExists, Conflict, NotFound, StatusError
from agent.kube.store import Object
from agent.model.diff import same
from agent.runtime.controller import Controller

if TYPE_CHECKING:
    from agent.kube.informer import Informer

_UNSYNCED_SECONDS = 0.1

BINDINGS = (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS)


class SourceRoom(Controller[Key]):
    """Keys are those of Sources; ClusterSources have an empty namespace."""

    name = "source"
    workers = 2

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._client = deps.local.client
        self._roles = Roles(deps.settings.source_role, deps.settings.summary_viewer_role)
        self._informers: dict[Kind, Informer] = {}
        self._foreign: dict[Key, tuple[Key, Informer, Callable[[], None]]] = {}
        if not deps.settings.source_controller:
            return
        for kind in SOURCE_KINDS:
            self._informers[kind] = deps.local.informer(kind)
            self.watch(self._informers[kind], lambda source: [source.key])
        for kind in (SERVICE_ACCOUNTS, *BINDINGS):
            self._informers[kind] = deps.local.informer(kind, labels=LABEL_SOURCE)
            self.watch(self._informers[kind], _source_of)

    async def reconcile(self, key: Key) -> float | None:
        """Make bindings and service account what the Source says, and tell the Source how that went."""
        source = self._source(key)
        self._forget_foreign(key, decide.service_account_key(key, source) if source is not None else None)
        actions = decide.decide(self._view(key, source))
        if source is None:
            if actions and not await self._really_gone(key):
                return 1.0
            for action in actions:
                await self._apply(action)
            return None
        try:
            await self._ensure_service_account(key, source)
            for action in actions:
                await self._apply(action)
        except Conflict:
            raise
        except StatusError as error:
            await self._tell(key, source, "False", error.reason or "Failed", f"cannot grant the rights: {error}")
            raise
        flaw = decide.flaw(key, source)
        if flaw:
            await self._tell(key, source, "False", "InvalidSpec", flaw)
        else:
            await self._tell(key, source, "True", "Bound", decide.granted(key, source, self._roles))
        return self._foreign_is_coming(key)

    def _source(self, key: Key) -> Raw | None:
        obj = self._informers[decide.kind_of(key)].store.get(key)
        return obj.decode() if obj is not None and not obj.deleting else None

    def _view(self, key: Key, source: Raw | None) -> SourceAndBindings:
        bindings: dict[Kind, dict[str, Raw]] = {kind: {} for kind in BINDINGS}
        for kind, name in decide.binding_names(key):
            obj = self._informers[kind].store.get((key[0] if kind.namespaced else "", name))
            if obj is not None:
                bindings[kind][name] = obj.decode()
        return SourceAndBindings(key, source, bindings, self._roles)

    async def _really_gone(self, key: Key) -> bool:
        """Ask the API server: the list of bindings may be newer than that of Sources."""
        try:
            live = await self._client.get(decide.kind_of(key), key[1], key[0])
        except NotFound:
            return True
        return "deletionTimestamp" in live["metadata"]

    async def _ensure_service_account(self, key: Key, source: Raw) -> None:
        account = decide.service_account_key(key, source)
        informer = self._informers[SERVICE_ACCOUNTS]
        if account is None or informer.store.get(account) is not None:
            return
        try:
            await self._client.get_raw(SERVICE_ACCOUNTS, account[1], account[0])
        except NotFound:
            manifest = decide.service_account(key, source, account)
            informer.absorb(await self._client.create_raw(SERVICE_ACCOUNTS, manifest))
        else:
            self._follow_foreign(key, account)

    def _follow_foreign(self, key: Key, account: Key) -> None:
        """Notice when a service account that somebody made by hand goes."""
        if key not in self._foreign:
            fields = f"metadata.name={account[1]}"
            informer = self._deps.local.informer(SERVICE_ACCOUNTS, account[0], fields=fields)
            self._foreign[key] = (account, informer, self.watch(informer, lambda found: [key], required=False))

    def _foreign_is_coming(self, key: Key) -> float | None:
        """Look once more when the watch has begun: what went before that is told by no event."""
        informer = self._foreign[key][1] if key in self._foreign else None
        if informer is None or informer.synced.is_set() or informer.error is not None:
            return None
        return _UNSYNCED_SECONDS

    def _forget_foreign(self, key: Key, account: Key | None) -> None:
        if key in self._foreign and self._foreign[key][0] != account:
            old, informer, stop = self._foreign.pop(key)
            stop()
            if not any(followed == old for followed, _, _ in self._foreign.values()):
                self._deps.local.informers.drop(informer)

    async def _apply(self, action: Action) -> None:
        match action:
            case Create(kind, manifest):
                await self._create(kind, manifest)
            case Patch(kind, (namespace, name), body):
                self._informers[kind].absorb(await self._client.patch_raw(kind, name, body, namespace))
            case Delete(kind, (namespace, name), uid):
                await self._delete(kind, namespace, name, uid)

    async def _create(self, kind: Kind, manifest: Raw) -> None:
        metadata = manifest["metadata"]
        try:
            self._informers[kind].absorb(await self._client.create_raw(kind, manifest))
        except AlreadyExists:
            # Made by an agent that does not label them, or by hand.
            actual = await self._client.get(kind, metadata["name"], metadata.get("namespace"))
            for action in decide.adjust(kind, actual, manifest):
                if isinstance(action, Create):
                    await self._client.create_raw(kind, manifest)
                else:
                    await self._apply(action)

    async def _delete(self, kind: Kind, namespace: str, name: str, uid: str) -> None:
        with contextlib.suppress(NotFound), self._informers[kind].vanished.noticed((namespace, name), uid):
            await self._client.delete(kind, name, namespace, uid=uid)

    async def _tell(self, key: Key, source: Raw, status: conditions.Status, reason: str, message: str) -> None:
        metadata = source["metadata"]
        old = source.get("status", {}).get("conditions") or []
        new = conditions.set_condition(
            old, "Ready", status, reason, message, self._deps.clock.now(), metadata.get("generation")
        )
        if same(old, new):
            return
        kind = decide.kind_of(key)
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": {"conditions": new}}
        self._informers[kind].absorb(await self._client.patch_raw(kind, key[1], body, key[0], sub="status"))
        if status == "False":
            self._deps.recorder.event(source, "Warning", reason, message)


def _source_of(obj: Object) -> Iterable[Key]:
    namespace, slash, name = obj.annotations.get(ANNOTATION_SOURCE, "").partition("/")
    return [(namespace, name)] if slash else []
