"""Policies of Sources that a chaperon has to satisfy.

A chaperon's author chooses its labels and annotations, so they do not prove which Source it belongs to. By RBAC it can
belong to any Source of its namespace and to any ClusterSource, and has to satisfy all their policies.

Even without policies, no pod may run as an account of a source or of Flotilla in this cluster.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agent.api.conditions import condition_of
from agent.api.kinds import SOURCE_KINDS
from agent.clusters.deps import Deps
from agent.clusters.stores.source_accounts import LINGER_SECONDS, SourceAccounts
from agent.kube.store import Key, Object
from agent.model import podpolicy
from agent.model.podpolicy import InvalidPolicy, Policy, Rule
from agent.pods.chaperon.refusals import CONDITION


class Policies:
    """Current policies of all Sources and ClusterSources."""

    def __init__(self, deps: Deps, changed: Callable[[str], None]) -> None:
        """:param changed: called with the namespace of a Source whose policy has changed; empty for all namespaces"""
        self._changed = changed
        self._home, self._own = deps.home, deps.settings.own_accounts
        self._accounts = SourceAccounts(deps.local, changed)
        self._rules: dict[Key, Rule] = {}
        self._gone: dict[Key, float] = {}
        self._sources = deps.local.either(SOURCE_KINDS)
        for informer in self._sources.informers:
            informer.subscribe(self._source_changed)

    def of(self, chaperon: Mapping[str, Any], pod: Mapping[str, Any] | None = None) -> tuple[Rule, ...] | None:
        """Return the rules for a chaperon and its pod, if any; None until all Sources have been read.

        A pod that the policy of a Source refused stays refused after that Source has been deleted.
        """
        if not self._sources.synced:
            return None
        self._forget()
        namespace = chaperon["metadata"]["namespace"]
        rules = [*self._account_rules(namespace, chaperon, pod)]
        rules += [rule for key, rule in self._rules.items() if key[0] in ("", namespace)]
        condition = condition_of(chaperon, CONDITION)
        by = str((condition or {}).get("message", ""))
        if by and not self._is_there(by):
            barred = "it refused this PodChaperon, and it is gone; delete the PodChaperon"
            rules.append(Rule(by, Policy(), barred))
        return tuple(rules)

    def _account_rules(
        self, namespace: str, chaperon: Mapping[str, Any], pod: Mapping[str, Any] | None
    ) -> Iterator[Rule]:
        """Refuse accounts of sources and of Flotilla. The spec of a PodChaperon may change after its pod was
        created."""
        for account in dict.fromkeys(podpolicy.account_of(each.get("spec")) for each in (chaperon, pod or chaperon)):
            if namespace == self._home and account in self._own:
                yield Rule("", Policy(), account_refusal(account, "Flotilla itself acts"))
            elif title := self._accounts.source_of(namespace, account):
                yield Rule(title, Policy(), account_refusal(account, "its source acts"))

    def _is_there(self, title: str) -> bool:
        namespace, _, name = title.partition(" ")[2].rpartition("/")
        return self._sources.get((namespace, name)) is not None

    def _source_changed(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        before = self._rules.get(obj.key)
        if new is None:
            if before is not None:
                self._gone[obj.key] = time.monotonic() + LINGER_SECONDS
            return
        self._gone.pop(obj.key, None)
        rule = _rule(new)
        if rule == before:
            return
        self._rules.pop(obj.key, None)
        if rule is not None:
            self._rules[obj.key] = rule
        self._changed(obj.namespace)

    def _forget(self) -> None:
        now = time.monotonic()
        for key in [key for key, until in self._gone.items() if until <= now]:
            del self._gone[key], self._rules[key]


def account_refusal(account: str, who_acts: str) -> str:
    """Return why no pod may run as an account, and the remedy."""
    return (
        f"spec.serviceAccountName: {account} is the account by which {who_acts} in that cluster, and a pod that runs as"
        " it would have these rights: have the pod name another service account"
    )


def _rule(source: Object) -> Rule | None:
    """Return the policy of a Source, None if it has none."""
    policy = (source.decode().get("spec") or {}).get("policy")
    if policy is None:
        return None
    title = f"{source.kind.name} {'/'.join(part for part in source.key if part)}"
    try:
        return Rule(title, podpolicy.read(policy))
    except InvalidPolicy as error:
        return Rule(title, Policy(), str(error))
