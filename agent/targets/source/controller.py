"""Source: grant the rights in this target to the clusters that Sources and ClusterSources name.

Watches  Sources, ClusterSources, the service accounts and bindings with our label, and each service account without
         it that a Source names; namespaces, for ClusterSources.
Writes   the service account (created if absent, never changed), the bindings, and the Source's conditions Ready and
         AccountExclusive; deletions of delegates that have outlived the service account.
Bindings of deleted Sources are found by their label, also after a time without an agent. Sources have no finalizer, so
that their deletion or that of their namespace never hangs.
"""

import contextlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from agent.api import conditions
from agent.api.kinds import CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS, SERVICE_ACCOUNTS, SOURCE_KINDS, Kind
from agent.api.names import ANNOTATION_SOURCE, LABEL_SOURCE
from agent.base.clock import parse
from agent.clusters.deps import Deps
from agent.kube.errors import AlreadyExists, Conflict, NotFound, StatusError
from agent.kube.store import Object
from agent.model import source as model
from agent.model.diff import same
from agent.runtime.controller import Controller
from agent.targets.source import decide, occupants
from agent.targets.source.account_pods import AccountPods
from agent.targets.source.decide import Action, Create, Delete, Key, Patch, Raw, Roles, SourceAndBindings, Told
from agent.targets.source.occupants import Account, Occupation

if TYPE_CHECKING:
    from agent.kube.informer import Informer

_UNSYNCED_SECONDS = 0.1
OCCUPIED_SECONDS = 3.0
"""Seconds between lists of pods while terminating pods prevent the creation of an account, or its rights."""

BINDINGS = (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS)


class SourceController(Controller[Key]):
    """Keys are those of Sources; ClusterSources have an empty namespace."""

    name = "source"
    workers = 2

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._client = deps.local.client
        self._pods = AccountPods(deps)
        self._roles = Roles(deps.settings.source_role, deps.settings.summary_viewer_role)
        self._informers: dict[Kind, Informer] = {}
        self._foreign: dict[Key, tuple[Key, Informer, Callable[[], None]]] = {}
        self._seen: dict[Key, dict[Key, str]] = {}
        """UIDs of the accounts of each Source as this process saw them first; empty for one that did not exist."""
        if not deps.settings.source_controller:
            return
        for kind in SOURCE_KINDS:
            self._informers[kind] = deps.local.informer(kind)
            self.watch(self._informers[kind], lambda source: [source.key])
        for kind in (SERVICE_ACCOUNTS, *BINDINGS):
            self._informers[kind] = deps.local.informer(kind, labels=LABEL_SOURCE)
            self.watch(self._informers[kind], _source_of)
        # A ClusterSource reports that its account is in a namespace whose pods are elected.
        self.watch(deps.namespaces.informer, lambda namespace: ())
        deps.namespaces.on_turn(self._namespace_turned)

    async def reconcile(self, key: Key) -> float | None:
        """Create, update or delete the service account and bindings of a Source, and write its conditions."""
        source = self._source(key)
        self._forget_foreign(key, decide.service_account_key(key, source) if source is not None else None)
        view = self._view(key, source)
        if source is None:
            self._seen.pop(key, None)
            actions = decide.decide(view)
            if actions and not await self._really_gone(key):
                return 1.0
            for action in actions:
                await self._apply(action)
            return None
        followed = key in self._foreign and self._foreign[key][1].synced.is_set()
        try:
            accounts = await self._accounts(key, source)
            found = await self._occupations(accounts, decide.granted_accounts(view))
            await self._pods.revoke(found, decide.title(key))
            await self._grant(view, source, accounts, found)
        except Conflict:
            raise
        except StatusError as error:
            why = (error.reason or "Failed", f"cannot grant the rights: {error}")
            await self._tell(key, source, [("Ready", "False", *why)])
            raise
        await self._tell(key, source, self._told(key, source, found))
        if occupants.is_ending(found, self._deps.clock.now()):
            return OCCUPIED_SECONDS
        return self._foreign_is_coming(key, followed=followed) or occupants.pause(found)

    async def _accounts(self, key: Key, source: Raw) -> list[Account]:
        """Return the accounts of a Source with their creation times."""
        found, seen = [], self._seen.setdefault(key, {})
        for account in model.accounts(source.get("spec") or {}, key[0]):
            cached = self._informers[SERVICE_ACCOUNTS].store.get(account)
            is_foreign = key[0] not in ("", account[0])
            try:
                obj = cached or Object(
                    SERVICE_ACCOUNTS, await self._client.get_raw(SERVICE_ACCOUNTS, account[1], account[0])
                )
            except NotFound:
                seen.setdefault(account, "")
                found.append(Account(account, None, is_foreign=is_foreign))
                continue
            is_another = seen.setdefault(account, obj.uid) != obj.uid
            found.append(Account(account, parse(obj.head.metadata.creation_timestamp or ""), is_another, is_foreign))
            if cached is None and account == decide.service_account_key(key, source):
                self._follow_foreign(key, account)
        return found

    async def _occupations(self, accounts: list[Account], granted: frozenset[Key]) -> list[Occupation]:
        """List the pods of each account except `default`, which Kubernetes recreates."""
        return [
            await self._pods.occupation(account, is_granted=account.key in granted)
            for account in accounts
            if account.key[1] != model.DEFAULT_ACCOUNT
        ]

    async def _grant(
        self, view: SourceAndBindings, source: Raw, accounts: list[Account], found: list[Occupation]
    ) -> None:
        """Create the account and the bindings. Leave out accounts that pods of other clusters run as already."""
        now = self._deps.clock.now()
        own = decide.service_account_key(view.key, source)
        # An account deleted since it was read is created by the next reconciliation, which lists its pods first.
        missing = any(account.key == own and account.since is None for account in accounts)
        if own is not None and missing and not any(each.account.key == own and each.must_wait(now) for each in found):
            manifest = decide.service_account(view.key, source, own)
            self._informers[SERVICE_ACCOUNTS].absorb(await self._client.create_raw(SERVICE_ACCOUNTS, manifest))
        withheld = frozenset(each.account.key for each in found if each.is_withheld(now))
        for action in decide.decide(msgspec.structs.replace(view, withheld=withheld)):
            await self._apply(action)

    def _told(self, key: Key, source: Raw, found: list[Occupation]) -> list[Told]:
        """Return the conditions of a Source."""
        flaw, obstacle = decide.flaw(key, source), occupants.obstacle(found, self._deps.clock.now())
        if flaw:
            ready: Told = ("Ready", "False", "InvalidSpec", flaw)
        elif obstacle:
            ready = ("Ready", "False", "AccountInUse", obstacle)
        else:
            ready = ("Ready", "True", "Bound", decide.granted(key, source, self._roles))
        account = decide.service_account_key(key, source)
        elects = not key[0] and account is not None and self._deps.namespaces.is_enabled(account[0])
        return [ready, decide.exclusive(key, source, occupants.shared_with(found), elects=elects)]

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
        """Return True if a Source has been or is being deleted. Asks the API server, since its store may lag behind."""
        try:
            live = await self._client.get(decide.kind_of(key), key[1], key[0])
        except NotFound:
            return True
        return "deletionTimestamp" in live["metadata"]

    def _follow_foreign(self, key: Key, account: Key) -> None:
        """Watch a service account without our label, to observe its deletion."""
        if key not in self._foreign:
            fields = f"metadata.name={account[1]}"
            informer = self._deps.local.informer(SERVICE_ACCOUNTS, account[0], fields=fields)
            self._foreign[key] = (account, informer, self.watch(informer, lambda found: [key], required=False))

    def _foreign_is_coming(self, key: Key, *, followed: bool) -> float | None:
        """Return the pause until a re-check after the watch has begun: it reports no earlier deletion.

        :param followed: whether it had begun before this reconciliation read the account
        """
        informer = self._foreign[key][1] if key in self._foreign else None
        return _UNSYNCED_SECONDS if informer is not None and not followed and informer.error is None else None

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
            # A user or another agent has created it without our label.
            actual = await self._client.get(kind, metadata["name"], metadata.get("namespace"))
            for action in decide.adjust(kind, actual, manifest):
                if isinstance(action, Create):
                    await self._client.create_raw(kind, manifest)
                else:
                    await self._apply(action)

    async def _delete(self, kind: Kind, namespace: str, name: str, uid: str) -> None:
        with contextlib.suppress(NotFound), self._informers[kind].vanished.noticed((namespace, name), uid):
            await self._client.delete(kind, name, namespace, uid=uid)

    async def _tell(self, key: Key, source: Raw, told: list[Told]) -> None:
        metadata = source["metadata"]
        old = new = source.get("status", {}).get("conditions") or []
        for type, status, reason, message in told:
            before = conditions.find_condition(old, type)
            if type != "Ready" and before is None and status == "True":
                continue
            now, generation = self._deps.clock.now(), metadata.get("generation")
            new = conditions.set_condition(new, type, status, reason, message, now, generation)
        if same(old, new):
            return
        kind = decide.kind_of(key)
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": {"conditions": new}}
        self._informers[kind].absorb(await self._client.patch_raw(kind, key[1], body, key[0], sub="status"))
        for _, status, reason, message in told:
            if status == "False":
                self._deps.recorder.event(source, "Warning", reason, message)

    def _namespace_turned(self, namespace: str) -> None:
        for source in self._informers[SOURCE_KINDS.cluster].store:
            account = decide.service_account_key(source.key, source.decode())
            if account is not None and account[0] == namespace:
                self.queue.add(source.key)


def _source_of(obj: Object) -> Iterable[Key]:
    namespace, slash, name = obj.annotations.get(ANNOTATION_SOURCE, "").partition("/")
    return [(namespace, name)] if slash else []
