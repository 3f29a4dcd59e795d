"""Certificate Secrets of shared Ingresses, copied to the same targets.

Watches  metadata of local Secrets, local Ingresses and Services; copies in targets.
Writes   the copies; a Warning event on an Ingress that names a Secret without certificate.
Copies in an absent target stay, and are updated when it returns. The copy of a Secret that pods name, too, belongs to
`follow`. It is recreated within half a minute after pods no longer need it.
"""

from collections.abc import Iterable
from typing import Any

from agent.api import names
from agent.api.kinds import INGRESSES, SECRETS, SERVICES
from agent.clusters.copies.copying import BLOCKED, CopyController, Item
from agent.clusters.deps import Deps
from agent.kube.errors import NotFound
from agent.kube.store import Key, Object, metadata_only
from agent.model import sharedcopies
from agent.services.ingress.shared import SharedIngresses, named

Raw = dict[str, Any]


TYPE = "kubernetes.io/tls"
"""Type of Secrets with certificates. Others stay: authors of Ingresses may name any Secret, even an account's token."""


def certificates(obj: Object) -> list[str]:
    """Return the Secrets that an Ingress names, as `namespace/name`: values of an index."""
    return [f"{obj.namespace}/{name}" for name in named(obj).secrets]


class IngressSecretController(CopyController):
    """Reconciles the copy of one Secret in one target."""

    name = "ingresssecrets"
    kind = SECRETS
    label = names.LABEL_INGRESS_SECRET
    slim = True
    borrowed = 30.0

    def __init__(self, deps: Deps) -> None:
        self._others: dict[Key, tuple[str, str]] = {}
        """UID and type of named Secrets that do not hold a certificate; a Secret's type never changes."""
        self._told: set[tuple[str, str]] = set()
        self._ingresses = deps.local.informer(INGRESSES)
        self._ingresses.store.index("secret", certificates)
        self._shared = SharedIngresses(deps)
        super().__init__(deps, deps.local.informer(SECRETS, reduce=metadata_only))
        self.watch(self._ingresses, self._named_by)
        self.watch(deps.local.informer(SERVICES), lambda service: ())
        self._shared.subscribe(self._look_at)

    def shared(self, original: Object) -> bool:
        """Return whether a shared Ingress names the Secret, and the Secret may hold a certificate."""
        return not self._is_other(original) and bool(self._users(original.key))

    async def reconcile(self, item: Item) -> float | None:
        """Reconcile one copy, or report on the Ingresses that name the original why there is none."""
        again = await super().reconcile(item)
        original = self.originals.store.get(item[1:])
        if original is not None and self._is_other(original):
            self._warn(original)
        return again

    def wanted(self, original: Raw) -> Raw:
        """Return the copy that a target should have."""
        return sharedcopies.secret(original, self.deps.settings.cluster_name, self.deps.cluster_uid)

    def serves(self, found: Raw) -> bool:
        """Return whether a target already has the Secret because pods name it, so that `follow` keeps it correct."""
        labels = found["metadata"].get("labels") or {}
        return bool(labels.get(names.LABEL_PARENT_CLUSTER_UID) == self.deps.cluster_uid)

    async def content(self, original: Object) -> Raw | None:
        """Return the Secret as read from its API server."""
        try:
            raw = await self.deps.local.client.get_raw(SECRETS, original.name, original.namespace)
        except NotFound:
            return None
        secret = Object(SECRETS, raw)
        content = secret.decode()
        if content.get("type") == TYPE:
            return content
        self._others[secret.key] = (secret.uid, content.get("type") or "Opaque")
        for node in self._copies:
            self.queue.add((node, *secret.key))
        return None

    def _users(self, secret: Key) -> list[Object]:
        users = self._ingresses.store.by_index("secret", "/".join(secret))
        return [each for each in users if self._shared.has(each)]

    def _is_other(self, original: Object) -> bool:
        return self._others.get(original.key, ("", ""))[0] == original.uid

    def _warn(self, original: Object) -> None:
        """Warn once on each shared Ingress that names a Secret which is not copied."""
        for each in self._users(original.key):
            if (each.uid, original.uid) not in self._told:
                self._told.add((each.uid, original.uid))
                metadata = {"namespace": each.namespace, "name": each.name, "uid": each.uid}
                regarding = {"apiVersion": INGRESSES.api_version, "kind": INGRESSES.name, "metadata": metadata}
                message = (
                    f"Secret {original.name} is of type {self._others[original.key][1]} and not copied to targets:"
                    f" spec.tls of an Ingress takes along Secrets of type {TYPE} only; put certificate and key into one"
                    " (kubectl create secret tls) and name that"
                )
                self.deps.recorder.event(regarding, "Warning", BLOCKED, message)

    def _named_by(self, obj: Object) -> list[Item]:
        return [(node, obj.namespace, name) for name in self._shared.secrets(obj) for node in self._copies]

    def _look_at(self, ingresses: Iterable[Object]) -> None:
        for each in ingresses:
            for item in self._named_by(each):
                self.queue.add(item)
