"""Connection to one cluster: its client, its shared informers, and the tasks that keep them current."""

from typing import TYPE_CHECKING

from agent.api.kinds import Kind, Kinds
from agent.clusters.push import Push
from agent.kube.both_scopes import EitherScope
from agent.kube.budget import Budget
from agent.kube.client import Client
from agent.kube.config import Connection
from agent.kube.informer import Informer
from agent.kube.reading import Reduce
from agent.kube.session import Session
from agent.runtime.informers import Informers
from agent.runtime.supervisor import Supervisor

if TYPE_CHECKING:
    from agent.clusters.port import Port


class Cluster:
    """A connection with everything that lives as long as it does."""

    def __init__(
        self, connection: Connection, name: str, *, timeout: float = 10.0, budget: Budget | None = None
    ) -> None:
        self.name = name
        self.client = Client(Session(connection, name=name, timeout=timeout))
        self.supervisor = Supervisor(name)
        self.informers = Informers(self.client, self.supervisor, budget)
        self.port: Port = Push(self.client, self.informers, self.supervisor)

    def informer(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        reduce: Reduce | None = None,
    ) -> Informer:
        """Return the shared informer of a kind."""
        return self.informers.get(kind, namespace, labels=labels, fields=fields, reduce=reduce)

    def either(self, kinds: Kinds) -> EitherScope:
        """Return the shared informers of a namespaced kind and of its cluster-scoped twin."""
        return EitherScope(self.client, self.informer, kinds)

    async def close(self) -> None:
        """End all watches, then the session."""
        await self.supervisor.stop()
        await self.client.session.close()
