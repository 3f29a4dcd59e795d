"""Source API: tokens for delegates that use the source's API server (annotation `multicluster/source-api` of a pod).

Watches  proxy pods, namespaces, Sources, chaperons of this cluster, the Secrets in targets that hold such
         tokens.
Writes   these Secrets, each before its delegate starts, and again when a fifth of the token's lifetime is left;
         a Warning event on a pod that gets none. A Secret is deleted when the account's token may no longer be
         sent.
Absent target: its Secrets stay. A token is bound to its proxy pod and becomes void with the pod's deletion.
Each requesting pod and each renewal costs two requests.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from agent.api import names
from agent.api.kinds import CONFIGMAPS, SECRETS, SERVICE_ACCOUNTS
from agent.clusters.copies.refusals import NOT_OURS, PASSING, Blocked, not_copied, reporting_refusals
from agent.clusters.deps import Deps
from agent.clusters.stores import source_accounts
from agent.clusters.stores.source_accounts import SourceAccounts
from agent.clusters.target import Target
from agent.dependencies.source_api.absent import REASON
from agent.kube.errors import AlreadyExists, Conflict, NotFound, StatusError
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model import sourceapi
from agent.model.podstate import ENDED, home_node
from agent.model.references import ROOT_CA
from agent.model.token import without_content
from agent.runtime.controller import Controller

Item = tuple[str, str, str]
"""Virtual node of the target, namespace and name of the proxy pod."""

_MARK = names.SOURCE_API.encode()
_BLOCKED_SECONDS = 30.0
_OF_POD = "pod"


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    expiration_timestamp: str = ""


class _Token(msgspec.Struct):
    status: _Status


class NotPermitted(Blocked):
    """Tokens of the account may not go to targets."""

    def __init__(self, message: str, again: float | None = None) -> None:
        """:param again: seconds until the account is checked again; None if an event reports that it is permitted"""
        super().__init__(message)
        self.again = again


class SourceApiController(Controller[Item]):
    """Reconciles one pod in one target."""

    name = "sourceapi"
    workers = 64

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._source = deps.local.client
        self._lifetime = deps.settings.source_api_token
        self._proxies = deps.proxies.informer
        self._secrets: dict[str, Informer] = {}
        self._asking: set[Key] = set()
        self._told: dict[str, str] = {}
        self._locks: dict[Item, asyncio.Lock] = {}
        self._accounts = SourceAccounts(deps.local, self._account_changed)
        self.watch(self._proxies, lambda pod: ())
        self.watch(deps.namespaces.informer, self._namespace_changed)
        self._proxies.subscribe(self._pod_changed)
        deps.chaperons.subscribe(self._chaperon_changed)
        deps.targets.on_attach(self._attached)
        deps.targets.on_change(self._target_changed)
        deps.targets.on_detach(self._detached)
        deps.prerequisites.add(self)

    async def ensure(self, proxy: Mapping[str, Any], target: Target) -> None:
        """Return once the token of a pod that asks for one is in a target, or is refused (see `Provider`)."""
        if target.is_self or not sourceapi.asks(proxy["metadata"].get("annotations")):
            return
        try:
            await self._bring(proxy["metadata"], await self._account(proxy, target), target)
        except Blocked as error:
            self._tell(proxy["metadata"], str(error))

    def places(self, proxy: Object) -> Mapping[str, str]:
        """Return nothing: a token binds no pod to a target."""
        return {}

    def left_in(self, target: Target) -> bool:
        """Return whether a retiring target still has Secrets with tokens."""
        informer = self._secrets.get(target.node_name)
        return target.ready and informer is not None and len(informer.store) > 0

    def lane(self, item: Item) -> str:
        """Use one lane per target, so that an unresponsive one delays no other."""
        return item[0]

    async def reconcile(self, item: Item) -> float | None:
        """Reconcile the token of one pod in one target."""
        node, key = item[0], item[1:]
        target, informer = self._deps.targets.by_node(node), self._secrets.get(node)
        if target is None or informer is None or not target.ready or not informer.synced.is_set():
            return None
        pod = self._proxies.store.get(key)
        needed = pod.uid if pod is not None and self._is_needed(pod, node) else ""
        served = {needed, *(uid for at, uid in self._chaperons(key) if at == node)}
        for secret in informer.store.by_index(_OF_POD, "/".join(key)):
            if secret.labels.get(names.LABEL_PARENT_UID) not in served:
                await self._delete(target, informer, secret)
        if pod is None or not needed:
            self._locks.pop(item, None)
            return None
        manifest = pod.decode()
        try:
            return await self._bring(manifest["metadata"], await self._account(manifest, target), target)
        except NotPermitted as error:
            self._tell(manifest["metadata"], str(error))
            for secret in informer.store.by_index(_OF_POD, "/".join(key)):
                if secret.labels.get(names.LABEL_PARENT_UID) == needed:
                    await self._delete(target, informer, secret)
            return error.again
        except Blocked as error:
            self._tell(manifest["metadata"], str(error))
            return _BLOCKED_SECONDS

    async def _account(self, proxy: Mapping[str, Any], target: Target) -> str:
        """Return the service account of a pod. Raises NotPermitted if its token may not be sent to targets."""
        await self._accounts.wait()
        account = str(proxy["spec"].get("serviceAccountName") or "default")
        name = proxy["metadata"]["namespace"]
        title = f"a token of ServiceAccount {name}/{account}"
        if source := self._accounts.source_of(name, account):
            why = f"the source of {source} acts by it in this cluster: have the pod name another service account"
            # The account counts for a while after the Source was deleted, and no event reports its end.
            raise NotPermitted(not_copied(title, target, why), source_accounts.LINGER_SECONDS)
        accounts = names.annotation(self._deps.namespaces.annotations(name), names.SOURCE_API_ACCOUNTS)
        if sourceapi.permits(accounts, account, otherwise=self._deps.settings.source_api_any_account):
            return account
        key = names.SHORT_PREFIX + names.SOURCE_API_ACCOUNTS
        remedy = f"an administrator of this cluster permits it by the annotation {key} of namespace {name}"
        raise NotPermitted(not_copied(title, target, remedy))

    async def _bring(self, pod: Mapping[str, Any], account: str, target: Target) -> float:
        """Ensure that a target has a valid token; return the seconds until it must be renewed."""
        item = (target.node_name, pod["namespace"], pod["name"])
        async with self._locks.setdefault(item, asyncio.Lock()):
            found = self._secrets[target.node_name].store.get((pod["namespace"], sourceapi.secret_name(pod)))
            now = self._deps.clock.now()
            wait = sourceapi.renew_in(found.annotations, self._lifetime, now) if found is not None else 0.0
            if wait > 0:
                return wait
            wanted = await self._wanted(pod, account, target)
            written = await self._write(wanted, found, target)
            return sourceapi.renew_in(written.annotations, self._lifetime, now)

    async def _wanted(self, pod: Mapping[str, Any], account: str, target: Target) -> dict[str, Any]:
        namespace = pod["namespace"]
        request = sourceapi.token_request(pod, account, int(self._lifetime))
        try:
            raw = await self._source.create_raw(SERVICE_ACCOUNTS, request, namespace, sub="token")
            authority = (await self._source.get(CONFIGMAPS, ROOT_CA, namespace)).get("data") or {}
        except PASSING:
            raise
        except StatusError as error:
            title = f"a token of ServiceAccount {namespace}/{account}"
            raise Blocked(not_copied(title, target, f"this cluster gives none: {error}")) from error
        token = msgspec.json.decode(raw, type=_Token).status
        return sourceapi.secret(
            pod,
            token.token,
            token.expiration_timestamp,
            authority.get("ca.crt", ""),
            cluster_name=self._deps.settings.cluster_name,
            cluster_uid=self._deps.cluster_uid,
        )

    async def _write(self, wanted: dict[str, Any], found: Object | None, target: Target) -> Object:
        metadata = wanted["metadata"]
        title = f"Secret {metadata['namespace']}/{metadata['name']}"
        port, informer = target.port, self._secrets[target.node_name]
        with reporting_refusals(title, target, SECRETS):
            if found is None:
                try:
                    return informer.absorb(await port.create_raw(SECRETS, wanted))
                except AlreadyExists:
                    there = await port.get(SECRETS, metadata["name"], metadata["namespace"])
                    if (there["metadata"].get("labels") or {}).get(names.LABEL_TOKEN_OF) != self._deps.cluster_uid:
                        raise Blocked(not_copied(title, target, NOT_OURS)) from None
            body = {"metadata": {"annotations": metadata["annotations"]}, "data": wanted["data"]}
            return informer.absorb(await port.patch_raw(SECRETS, metadata["name"], body, metadata["namespace"]))

    async def _delete(self, target: Target, informer: Informer, secret: Object) -> None:
        with contextlib.suppress(NotFound, Conflict), informer.vanished.noticed(secret.key, secret.uid):
            await target.port.delete(SECRETS, secret.name, secret.namespace, uid=secret.uid)

    def _is_needed(self, pod: Object, node: str) -> bool:
        if pod.key not in self._asking or pod.deleting or pod.phase in ENDED:
            return False
        if (node, pod.uid) in self._chaperons(pod.key):
            return True
        target = self._deps.targets.by_node(node)
        allowed = (
            self._deps.namespaces.is_enabled(pod.namespace) and target is not None and target.serves(pod.namespace)
        )
        return allowed and node == home_node(pod)

    def _chaperons(self, key: Key) -> set[tuple[str, str]]:
        """Return the virtual nodes of a pod's chaperons, and the UIDs of the proxy pods that they represent."""
        placed = self._deps.chaperons.of(key)
        return {(each.target.node_name, each.chaperon.labels.get(names.LABEL_PARENT_UID, "")) for each in placed}

    def _tell(self, pod: Mapping[str, Any], message: str) -> None:
        if self._told.get(pod["uid"]) != message:
            self._told[pod["uid"]] = message
            metadata = {field: pod[field] for field in ("namespace", "name", "uid")}
            regarding = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
            self._deps.recorder.event(regarding, "Warning", REASON, message)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        assert pod is not None
        if new is not None and _MARK in new.raw and sourceapi.asks(new.annotations):
            self._asking.add(pod.key)
        elif pod.key in self._asking:
            self._asking.discard(pod.key)
            self._told.pop(pod.uid, None)
        else:
            return
        for node in self._secrets:
            self.queue.add((node, *pod.key))

    def _namespace_changed(self, namespace: Object) -> Iterable[Item]:
        return self._asking_in(namespace.name)

    def _account_changed(self, namespace: str) -> None:
        for item in self._asking_in(namespace):
            self.queue.add(item)

    def _asking_in(self, namespace: str) -> list[Item]:
        return [(node, *pod) for pod in self._asking if pod[0] == namespace for node in self._secrets]

    def _chaperon_changed(self, pod: Key) -> None:
        for node, informer in self._secrets.items():
            if pod in self._asking or informer.store.count(_OF_POD, "/".join(pod)):
                self.queue.add((node, *pod))

    def _attached(self, target: Target) -> None:
        if target.is_self:
            return
        node, labels = target.node_name, f"{names.LABEL_TOKEN_OF}={self._deps.cluster_uid}"
        informer = target.informer(SECRETS, labels=labels, reduce=without_content)
        informer.store.index(_OF_POD, lambda secret: ["/".join(_pod_of(secret))])
        self._secrets[node] = informer
        self.watch(informer, lambda secret: ((node, *_pod_of(secret)),), required=False)
        informer.subscribe(lambda old, new: self._deps.prerequisites.taken(target) if new is None else None)

    def _target_changed(self, target: Target) -> None:
        informer = self._secrets.get(target.node_name)
        if target.ready and informer is not None:
            for key in self._of(informer):
                self.queue.add((target.node_name, *key))

    def _of(self, informer: Informer) -> Iterable[Key]:
        return {*self._asking, *map(_pod_of, informer.store)}

    def _detached(self, target: Target) -> None:
        self._secrets.pop(target.node_name, None)
        self._locks = {item: lock for item, lock in self._locks.items() if item[0] != target.node_name}


def _pod_of(secret: Object) -> Key:
    return (secret.namespace, secret.annotations.get(names.ANNOTATION_PARENT_NAME, ""))
