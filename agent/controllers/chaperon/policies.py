"""Which policies of Sources a chaperon has to satisfy.

Its labels and annotations are whatever its maker wrote, so they do not tell whose it is. By RBAC it can be of any
Source of its namespace and of any ClusterSource: it has to satisfy the policies of all.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from agent.api.conditions import condition_of
from agent.api.kinds import SOURCE_KINDS
from agent.clusters.deps import Deps
from agent.controllers.chaperon.refusals import CONDITION
from agent.kube.store import Key, Object
from agent.model import podpolicy
from agent.model.podpolicy import InvalidPolicy, Policy, Rule

LINGER_SECONDS = 60.0
"""For so long the policy of a Source that is gone counts: its rights go a moment after it."""


class Policies:
    """The policies of all Sources and ClusterSources, as they are now."""

    def __init__(self, deps: Deps, changed: Callable[[str], None]) -> None:
        """:param changed: called with the namespace of a Source, empty for all, whose policy has changed"""
        self._changed = changed
        self._rules: dict[Key, Rule] = {}
        self._gone: dict[Key, float] = {}
        self._sources = deps.local.either(SOURCE_KINDS)
        for informer in self._sources.informers:
            informer.subscribe(self._source_changed)

    def of(self, chaperon: Mapping[str, Any]) -> tuple[Rule, ...] | None:
        """What a chaperon has to satisfy, None while that is not known.

        What the policy of a Source has refused stays refused when that Source is deleted.
        """
        if not self._sources.synced:
            return None
        self._forget()
        namespace = chaperon["metadata"]["namespace"]
        rules = [rule for key, rule in self._rules.items() if key[0] in ("", namespace)]
        condition = condition_of(chaperon, CONDITION)
        by = str((condition or {}).get("message", ""))
        if by and not self._is_there(by):
            barred = "its policy refused this PodChaperon, and it is gone; delete the PodChaperon"
            rules.append(Rule(by, Policy(), barred))
        return tuple(rules)

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


def _rule(source: Object) -> Rule | None:
    """The policy of a Source, None if it has none."""
    policy = (source.decode().get("spec") or {}).get("policy")
    if policy is None:
        return None
    title = f"{source.kind.name} {'/'.join(part for part in source.key if part)}"
    try:
        return Rule(title, podpolicy.read(policy))
    except InvalidPolicy as error:
        return Rule(title, Policy(), str(error))
