"""Secrets with the certificates of shared Ingresses go where these go.

Watches  metadata of Secrets, and Ingresses and Services here; our copies in targets.
Writes   the copies.
Absent target: its copies stay, and are brought in line when it is back. A Secret that pods name, too, is theirs: it is
there already, and comes back within half a minute once they need it no more.
"""

from typing import Any

from agent.api import names
from agent.api.kinds import INGRESSES, SECRETS, SERVICES
from agent.clusters.copying import CopyRoom, Item
from agent.clusters.deps import Deps
from agent.controllers.ingress.controller import is_shared_ingress, leads_to
from agent.kube.errors import NotFound
from agent.kube.store import Object, metadata_only
from agent.model import ingress, sharedcopies

Raw = dict[str, Any]


def certificates(obj: Object) -> list[str]:
    """Secrets that an Ingress names, as `namespace/name`: an index of them."""
    return [f"{obj.namespace}/{name}" for name in ingress.secrets(obj.decode())]


class IngressSecretRoom(CopyRoom):
    """Keys are a target's virtual node, namespace and name."""

    name = "ingresssecrets"
    kind = SECRETS
    label = names.LABEL_INGRESS_SECRET
    slim = True
    borrowed = 30.0

    def __init__(self, deps: Deps) -> None:
        self._ingresses = deps.local.informer(INGRESSES)
        self._ingresses.store.index("secret", certificates)
        self._ingresses.store.index("service", leads_to)
        super().__init__(deps, deps.local.informer(SECRETS, reduce=metadata_only))
        self.watch(self._ingresses, self._named_by)
        self.watch(deps.local.informer(SERVICES), self._behind)

    def shared(self, original: Object) -> bool:
        """Whether a shared Ingress names it."""
        users = self._ingresses.store.by_index("secret", f"{original.namespace}/{original.name}")
        return any(is_shared_ingress(self.deps, each) for each in users)

    def wanted(self, original: Raw) -> Raw:
        """The copy."""
        return sharedcopies.secret(original, self.deps.settings.cluster_name, self.deps.cluster_uid)

    async def content(self, original: Object) -> Raw | None:
        """The Secret as its API server has it now."""
        try:
            raw = await self.deps.local.client.get_raw(SECRETS, original.name, original.namespace)
        except NotFound:
            return None
        return Object(SECRETS, raw).decode()

    def _named_by(self, obj: Object) -> list[Item]:
        named = ingress.secrets(obj.decode())
        return [(node, obj.namespace, name) for name in named for node in self._copies]

    def _behind(self, service: Object) -> list[Item]:
        ingresses = self._ingresses.store.by_index("service", f"{service.namespace}/{service.name}")
        return [item for each in ingresses for item in self._named_by(each)]
