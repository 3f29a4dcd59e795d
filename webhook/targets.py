"""The current targets: the finalizers that they put on proxy pods, and objects they lack that a pod needs.

A created, changed or deleted Target counts from the next pod on. Without the API server the cached ones count. The
status of a Target lists its objects (ruling 14): the webhook calls no target.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from agent.api import names
from agent.api.kinds import PERSISTENT_VOLUME_CLAIMS, SERVICE_ACCOUNTS, TARGET_KINDS
from agent.kube.both_scopes import EitherScope
from agent.kube.client import Client
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model.schedulername import REMEDY, special
from webhook.target_choices import unknown

_DEFAULT_ACCOUNT = "default"
_REMEMBERED = 8
"""Number of namespaces with cached inventories of targets: decoding many of them takes long."""
_FOLLOW = f"annotate pod or namespace {names.SHORT_PREFIX}{names.FOLLOW_ACCOUNT}=true, where Sources allow accounts"


class _Inventory(msgspec.Struct, rename="camel"):
    """Inventory of a namespace in a target; None for unknown lists."""

    name: str
    service_accounts: list[str] | None = None
    persistent_volume_claims: list[str] | None = None


class _Status(msgspec.Struct):
    follow: list[str] = []
    """Kinds that are copied to the target."""
    namespaces: list[_Inventory] = []
    schedulers: list[str] = msgspec.field(default_factory=list, name="missingSchedulers")


class _Target(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


_decoder = msgspec.json.Decoder(_Target)


class _Told(msgspec.Struct, frozen=True):
    """A target's status for a namespace, valid for this version of the Target."""

    target: Object
    follow: list[str]
    inventory: _Inventory
    schedulers: list[str]
    """Schedulers that the target lacks."""

    def accounts(self, *, follows: bool) -> list[str] | None:
        """Return the service accounts of the target; None if every account serves, because the pod's own is copied."""
        return None if follows and SERVICE_ACCOUNTS.plural in self.follow else self.inventory.service_accounts

    def claims(self) -> list[str] | None:
        """Return the claims of the target; None if every claim serves, because the pod's own are copied."""
        return None if PERSISTENT_VOLUME_CLAIMS.plural in self.follow else self.inventory.persistent_volume_claims


class Targets:
    """Cache of Targets and ClusterTargets; the caller runs its two informers."""

    def __init__(self, client: Client) -> None:
        self._objects = EitherScope(client, lambda kind: Informer(client, kind), TARGET_KINDS)
        self.informers = self._objects.informers
        self._told: dict[str, dict[str, _Told]] = {}
        """By namespace, the last used at the end, and by title of the target."""

    @property
    def synced(self) -> bool:
        """Return whether all targets were listed once."""
        return self._objects.synced

    def problem(self) -> str | None:
        """Which targets were never listed, and why; None when all were."""
        for informer in self.informers:
            if not informer.synced.is_set():
                return f"{informer.kind} not listed yet: {informer.error or 'waiting for the API server'}"
        return None

    def finalizers(self, namespace: str) -> list[str]:
        """Sorted finalizers of the Targets of a namespace and of all ClusterTargets, those being deleted apart."""
        return sorted(names.finalizer(target.namespace, target.name) for target in self._usable(namespace))

    def named(self, namespace: str) -> tuple[set[str], set[str]]:
        """Names of its Targets, and of all ClusterTargets."""
        own, of_cluster = set[str](), set[str]()
        for target in self._usable(namespace):
            (own if target.namespace else of_cluster).add(target.name)
        return own, of_cluster

    def missing(self, namespace: str, pod: Mapping[str, Any]) -> list[str]:
        """Return sentences about objects that targets lack for a pod: its scheduler, its service account and each
        claim.

        Another sentence is about targets that the pod names and that do not exist.
        """
        account, claims, scheduler = _account(pod), _claims(pod), special(pod.get("spec") or {})
        sentences = unknown((pod.get("metadata") or {}).get("annotations"), namespace, self)
        if not account and not claims and not scheduler:
            return sentences
        told = self._remembered(namespace)
        without = sorted(title for title, one in told.items() if scheduler in one.schedulers)
        if without:
            sentences.append(
                f"scheduler {scheduler} has looked at no pod of this cluster in {', '.join(without)}: {REMEDY}"
            )
        if account:
            follows = _account_follows(pod)
            without = _without(account, {title: one.accounts(follows=follows) for title, one in told.items()})
            found = _sentence("service account", account, namespace, without, len(told))
            sentences += [f"{sentence}, or follows the pod from here: {_FOLLOW}" for sentence in found]
        for claim in claims:
            without = _without(claim, {title: one.claims() for title, one in told.items()})
            found = _sentence("persistent volume claim", claim, namespace, without, len(told))
            sentences += [f"{sentence}, or follows the pod from here" for sentence in found]
        return sentences

    def _remembered(self, namespace: str) -> dict[str, _Told]:
        before, told = self._told.pop(namespace, {}), {}
        for target in self._usable(namespace):
            title = f"{target.kind.name} {target.name}"
            known = before.get(title)
            told[title] = known if known is not None and known.target is target else _read(target, namespace)
        self._told[namespace] = told
        if len(self._told) > _REMEMBERED:
            del self._told[next(iter(self._told))]
        return told

    def _usable(self, namespace: str) -> Iterator[Object]:
        return (target for target in self._objects.serving(namespace) if not target.deleting)


def _read(target: Object, namespace: str) -> _Told:
    status = _decoder.decode(target.raw).status
    found = next((one for one in status.namespaces if one.name == namespace), _Inventory(namespace))
    return _Told(target, status.follow, found, status.schedulers)


def _without(name: str, known: Mapping[str, list[str] | None]) -> list[str]:
    return sorted(target for target, there in known.items() if there is not None and name not in there)


def _sentence(what: str, name: str, namespace: str, without: list[str], count: int) -> list[str]:
    if not without:
        return []
    then = "the pod cannot run anywhere" if len(without) == count else "the pod cannot run there"
    return [f"{what} {name} does not exist in namespace {namespace} of {', '.join(without)}: {then} until it does"]


def _account(pod: Mapping[str, Any]) -> str:
    name = str(pod.get("spec", {}).get("serviceAccountName") or "")
    return "" if name == _DEFAULT_ACCOUNT else name


def _account_follows(pod: Mapping[str, Any]) -> bool:
    """Return whether the pod itself asks for it; targets publish nothing for namespaces that do."""
    return names.annotation((pod.get("metadata") or {}).get("annotations"), names.FOLLOW_ACCOUNT) == "true"


def _claims(pod: Mapping[str, Any]) -> list[str]:
    volumes = pod.get("spec", {}).get("volumes") or ()
    claims = (volume["persistentVolumeClaim"]["claimName"] for volume in volumes if volume.get("persistentVolumeClaim"))
    return sorted(set(claims))
