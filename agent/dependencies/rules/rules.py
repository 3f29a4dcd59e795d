"""Roles and RoleBindings of pods' service accounts, and NetworkPolicies: copied to every target on request.

A namespace or a pod requests them by annotation.

Watches  local Roles, RoleBindings, NetworkPolicies and proxy pods, namespaces that elect, copies in targets.
Writes   the copies, those of NetworkPolicies with selectors of delegates; a Warning event on an original that cannot be
  copied.
Copies in an absent target stay, and are updated when it returns. The API server lets a source grant only rights that it
holds in the target itself, unless it may escalate and bind.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from agent.api import names
from agent.api.kinds import NETWORK_POLICIES, ROLE_BINDINGS, ROLES
from agent.clusters.copies.copying import Item
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.dependencies.rules import copies
from agent.dependencies.rules.opt_in import OptInController
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.ranking.pod_terms import Labels, Requirement, Selector, selector

Raw = dict[str, Any]

_ROLE = "role"
_ACCOUNT = "serviceAccountName"
_ESCALATION = "not currently held"


class _Spec(msgspec.Struct, rename="camel"):
    service_account_name: str = ""


class _Pod(msgspec.Struct):
    spec: _Spec


_pod_decoder = msgspec.json.Decoder(_Pod)


class _RightsRoom(OptInController):
    asked_by = names.FOLLOW_ROLES

    def __init__(self, deps: Deps) -> None:
        self._bindings = deps.local.informer(ROLE_BINDINGS)
        self._bindings.store.index(_ROLE, _role_of)
        super().__init__(deps)

    def remedy(self, problem: str) -> str:
        """Return the remedy: rights that a source does not hold itself need another one than a missing verb."""
        if _ESCALATION not in problem:
            return super().remedy(problem)
        return (
            "; a source hands on only what it may do there itself: grant its account these rights, or the verbs"
            " escalate and bind on roles"
        )

    def labels(self, pod: Object) -> Labels:
        """Return the service account of a pod."""
        return {_ACCOUNT: _pod_decoder.decode(pod.raw).spec.service_account_name or "default"}


def _any_of(accounts: Iterable[str]) -> Selector:
    return Selector((Requirement(_ACCOUNT, "In", frozenset(accounts)),))


class RoleController(_RightsRoom):
    """Reconciles the copy of one Role in one target."""

    name = "followroles"
    kind = ROLES

    def __init__(self, deps: Deps) -> None:
        self._accounts: dict[Key, frozenset[str]] = {}
        """Service accounts of each RoleBinding, decoded once per version."""
        super().__init__(deps)
        self._bindings.subscribe(self._decode)
        self.watch(self._bindings, self._bound)

    def selector(self, original: Object) -> Selector:
        """Return a selector of pods with the service accounts to which RoleBindings give the Role."""
        bindings = self._bindings.store.by_index(_ROLE, f"{original.namespace}/{original.name}")
        return _any_of(frozenset[str]().union(*(self._accounts.get(each.key, ()) for each in bindings)))

    def wanted(self, original: Raw) -> Raw:
        """Return the copy that a target should have."""
        return copies.role(original, self.deps.settings.cluster_name, self.deps.cluster_uid)

    def _decode(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._accounts[new.key] = frozenset(copies.accounts(new.decode()))
        elif old is not None:
            self._accounts.pop(old.key, None)

    def _bound(self, binding: Object) -> Iterable[Item]:
        role = self.originals.store.get((binding.namespace, copies.role_of(binding.decode())))
        return self._items(role) if role is not None else ()


class RoleBindingController(_RightsRoom):
    """Reconciles the copy of one RoleBinding in one target."""

    name = "followbindings"
    kind = ROLE_BINDINGS

    def selector(self, original: Object) -> Selector | None:
        """Return a selector of pods with its service accounts; None if it binds none of its namespace."""
        accounts = copies.accounts(original.decode())
        return _any_of(accounts) if accounts else None

    def wanted(self, original: Raw) -> Raw:
        """Return the copy that a target should have."""
        return copies.binding(original, self.deps.settings.cluster_name, self.deps.cluster_uid)

    async def reconcile(self, item: Item) -> float | None:
        """Reconcile one copy once its Role exists; before, the API server refuses it."""
        return None if self._waits(item) else await super().reconcile(item)

    def _waits(self, item: Item) -> bool:
        target, original = self.deps.targets.by_node(item[0]), self.originals.store.get(item[1:])
        if target is None or original is None or original.deleting or not self._active or not self.shared(original):
            return False
        role = copies.role_of(original.decode())
        return bool(role) and self._roles_in(target).store.get((original.namespace, role)) is None

    def _roles_in(self, target: Target) -> Informer:
        return target.informer(ROLES, labels=f"{self.label}={self.deps.cluster_uid}")

    def _attached(self, target: Target) -> None:
        super()._attached(target)
        if self._active and not target.is_self:
            node = target.node_name
            self.watch(self._roles_in(target), lambda role: self._of(node, role), required=False)

    def _of(self, node: str, role: Object) -> Iterable[Item]:
        bindings = self._bindings.store.by_index(_ROLE, f"{role.namespace}/{role.name}")
        return [(node, *binding.key) for binding in bindings]


def _role_of(binding: Object) -> list[str]:
    return [f"{binding.namespace}/{copies.role_of(binding.decode())}"]


POLICY_BYTES = 512 << 10
"""JSON of a NetworkPolicy that is copied. Reading and rewriting 1.4 MiB of rules takes the event loop 250 ms."""


class NetworkPolicyController(OptInController):
    """Copies each NetworkPolicy that its namespace, or a pod that it selects, requests."""

    name = "followpolicies"
    kind = NETWORK_POLICIES
    asked_by = names.FOLLOW_POLICIES

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._exact: dict[str, bool] = {}
        """Whether every delegate had exact labels at the last change, by virtual node."""
        deps.unlabelled.on_turn(self._labels_turned)

    def selector(self, original: Object) -> Selector:
        """Return the policy's selector of pods."""
        found = selector(original.decode()["spec"].get("podSelector") or {})
        # A selector may list very many values; a set makes the lookup fast.
        return Selector(tuple(each._replace(values=frozenset(each.values)) for each in found.requirements))

    async def content(self, original: Object) -> Raw | None:
        """Return the policy.

        :raises ValueError: if it is too long to be copied
        """
        if (size := len(original.raw)) > POLICY_BYTES:
            raise ValueError(
                f"NetworkPolicy {original.name} is not copied: it has {size} bytes, and {POLICY_BYTES} are allowed:"
                " split it into several"
            )
        return await super().content(original)

    def wanted(self, original: Raw) -> Raw:
        """Return the copy that a target should have."""
        return copies.network_policy(original, self.deps.settings.cluster_name, self.deps.cluster_uid)

    def wanted_there(self, target: Target, original: Raw, copy: Object | None) -> Raw:
        """Return the copy that a target should have: its peers may be of any namespace."""
        exact = not self.deps.unlabelled.any(target)
        return copies.network_policy(original, self.deps.settings.cluster_name, self.deps.cluster_uid, exact=exact)

    def _labels_turned(self, place: tuple[str, str]) -> None:
        node = place[0]
        target = self.deps.targets.by_node(node)
        exact = target is not None and not self.deps.unlabelled.any(target)
        if self._exact.get(node) is not exact:
            self._exact[node] = exact
            self.again_in(node)

    def _detached(self, target: Target) -> None:
        self._exact.pop(target.node_name, None)
        super()._detached(target)
