"""Service accounts of this cluster whose rights sources use: no pod from another cluster may run as one.

Watches  Sources and ClusterSources of this cluster.
Writes   nothing.
"""

import time
from collections.abc import Callable
from typing import Any

from agent.api.kinds import SOURCE_KINDS
from agent.clusters.cluster import Cluster
from agent.kube.store import Key, Object
from agent.model import source
from agent.model.source import DEFAULT_ACCOUNT

Now = Callable[[], float]

LINGER_SECONDS = 60.0
"""Seconds for which an account still counts after its Source was deleted: the agent deletes the bindings
slightly later.
"""


class AccountIndex:
    """Accounts to which Sources and ClusterSources grant rights, and the Sources that do.

    The account `default` is not in it. No new Source names it; an old Source that does would otherwise stop all
    pods of its namespace that name no account.
    """

    def __init__(self, changed: Callable[[str], None], now: Now = time.monotonic) -> None:
        """:param changed: called with the namespace of every account that becomes or ceases to be one of a source"""
        self._changed = changed
        self._now = now
        self._titles: dict[Key, dict[Key, str]] = {}
        """Titles of Sources by their key, by the key of the account."""
        self._accounts: dict[Key, frozenset[Key]] = {}
        """Keys of accounts by the key of the Source."""
        self._gone: dict[Key, float] = {}
        """Times at which deleted Sources no longer count."""

    def source_of(self, namespace: str, account: str) -> str:
        """Return kind and name of a Source that grants rights to an account; empty if none does."""
        self._forget()
        return next(iter(self._titles.get((namespace, account), {}).values()), "")

    def update(self, old: Object | None, new: Object | None) -> None:
        """Update the index after a change of a Source or ClusterSource."""
        if new is None:
            assert old is not None
            self._gone[old.key] = self._now() + LINGER_SECONDS
            return
        self._gone.pop(new.key, None)
        title = f"{new.kind.name} {'/'.join(part for part in new.key if part)}"
        self._put(new.key, title, _accounts(new))

    def _put(self, key: Key, title: str, after: frozenset[Key]) -> None:
        before = self._accounts.pop(key, frozenset())
        if after:
            self._accounts[key] = after
        for account in before - after:
            del self._titles[account][key]
            if not self._titles[account]:
                del self._titles[account]
        for account in after - before:
            self._titles.setdefault(account, {})[key] = title
        for namespace in {account[0] for account in before ^ after}:
            self._changed(namespace)

    def _forget(self) -> None:
        now = self._now()
        for key in [key for key, until in self._gone.items() if until <= now]:
            del self._gone[key]
            self._put(key, "", frozenset())


class SourceAccounts(AccountIndex):
    """Account index that watches Sources and ClusterSources."""

    def __init__(self, local: Cluster, changed: Callable[[str], None]) -> None:
        def changed_later(namespace: str) -> None:
            # Nothing is decided before all Sources have been read, so the first list changes no decision.
            if self.synced:
                changed(namespace)

        super().__init__(changed_later)
        self._scope = local.either(SOURCE_KINDS)
        for informer in self._scope.informers:
            informer.subscribe(self.update)

    @property
    def synced(self) -> bool:
        """Whether all Sources and ClusterSources have been read."""
        return self._scope.synced

    async def wait(self) -> None:
        """Return once all Sources and ClusterSources have been read."""
        for informer in self._scope.informers:
            await informer.synced.wait()


def _accounts(obj: Object) -> frozenset[Key]:
    spec: Any = obj.decode().get("spec")
    found = source.accounts(spec, obj.namespace) if isinstance(spec, dict) else []
    return frozenset(each for each in found if each[1] != DEFAULT_ACCOUNT)
