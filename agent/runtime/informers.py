"""One list and watch per kind, namespace and selector, shared by all rooms of a cluster."""

from collections.abc import Callable, Iterator

from agent.api.kinds import Kind
from agent.kube.budget import Budget
from agent.kube.client import Client
from agent.kube.errors import one_line
from agent.kube.informer import Informer
from agent.kube.reading import Reduce
from agent.runtime.supervisor import Supervisor

_TOLD = 1000
"""Characters."""

_Asked = tuple[Kind, str | None, str, str, Reduce | None]


class Informers:
    """The informers of one cluster, each started when it is first asked for."""

    def __init__(self, client: Client, supervisor: Supervisor, budget: Budget | None = None) -> None:
        self._budget = budget or Budget()
        self._client = client
        self._supervisor = supervisor
        self._running: dict[_Asked, tuple[Informer, Callable[[], object]]] = {}

    def get(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        reduce: Reduce | None = None,
    ) -> Informer:
        """The informer of a kind, in one namespace or (None) in all, with selectors."""
        asked = (kind, namespace or None, labels, fields, reduce)
        if asked not in self._running:
            informer = Informer(self._client, kind, namespace or None, labels, fields, reduce, self._budget)
            stop = self._supervisor.spawn(f"watch {self._client.name} {kind} {namespace or ''}".strip(), informer.run)
            self._running[asked] = (informer, stop)
        return self._running[asked][0]

    def drop(self, informer: Informer) -> None:
        """Stop an informer that nobody needs any more."""
        for asked, (running, stop) in list(self._running.items()):
            if running is informer:
                stop()
                self._budget.used -= informer.store.size
                del self._running[asked]

    def interrupt(self) -> None:
        """Have all of them resume at once on new connections."""
        for informer, _ in self._running.values():
            informer.interrupt()

    def flaws(self) -> str:
        """Which objects cannot be read and why, in one line for users; empty when all can."""
        return one_line(", ".join(filter(None, (informer.flaws.told() for informer in self))), _TOLD)

    def __iter__(self) -> Iterator[Informer]:
        return iter([informer for informer, _ in self._running.values()])
