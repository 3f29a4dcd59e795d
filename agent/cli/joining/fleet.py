"""All pairs of clusters of one command: connected once, processed concurrently."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from agent.cli.joining.contexts import Side, Way, side
from agent.cli.joining.manifests import Names
from agent.cli.joining.objects import Report
from agent.cli.options import Failed
from agent.cli.progress import Progress, ticking
from agent.kube.errors import InvalidConfig
from agent.kube.kubeconfig import Entry

AT_ONCE = 10
"""Number of pairs that are processed concurrently."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Order:
    """Request of a user: one source and its targets, by contexts of kubeconfigs."""

    source: str
    source_name: str
    targets: Mapping[str, str]
    """Contexts of the targets by name; a context is empty if only the source has to be read."""
    namespace: str = ""
    """Namespace of the objects; empty: the agent's for ClusterTargets, else the source context's."""
    cluster_scoped: bool = False
    both: bool = False
    """Whether every target becomes a source of its source, too."""
    ways: Mapping[str, Way] = field(default_factory=dict)
    """Address options of clusters, by context."""
    agentless: bool = False


class Pair(msgspec.Struct, frozen=True):
    """A source and one of its targets, with their names for each other."""

    source: Side
    target: Side | None
    source_name: str
    target_name: str
    namespace: str
    cluster_scoped: bool

    def names(self, homes: tuple[str, str] = ("", "")) -> Names:
        """Return the names of the objects to write.

        :param homes: namespaces of the agents of source and target, for cluster-scoped joins
        """
        return Names(
            source=self.source_name,
            target=self.target_name,
            cluster_scoped=self.cluster_scoped,
            source_namespace=self.namespace or homes[0],
            target_namespace=self.namespace or homes[1],
        )

    @property
    def title(self) -> str:
        """Title of a pair in progress output."""
        return f"{self.source.context} -> {self.target.context if self.target else self.target_name}"


Work = Callable[[Pair, Report, Say], Awaitable[None]]


@contextlib.asynccontextmanager
async def opened_pairs(order: Order, source: Entry, targets: Entry) -> AsyncIterator[list[Pair]]:
    """Connect to all pairs; contexts of targets are those of the kubeconfig `targets`. Raises InvalidConfig."""
    async with contextlib.AsyncExitStack() as stack:
        here = await stack.enter_async_context(side(source, order.source))
        namespace = order.namespace or ("" if order.cluster_scoped else here.namespace)
        pairs = []
        for name, context in order.targets.items():
            there = await stack.enter_async_context(side(targets, context)) if context else None
            pairs.append(Pair(here, there, order.source_name, name, namespace, order.cluster_scoped))
            if order.both and there is not None:
                pairs.append(Pair(there, here, name, order.source_name, namespace, order.cluster_scoped))
        yield pairs


async def for_all(pairs: Sequence[Pair], verb: str, progress: Progress, work: Work) -> list[Report]:
    """Run `work` for all pairs, some at a time. The report of a pair contains its failure; the other pairs continue."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(pair: Pair) -> Report:
        place = pair.names().target_place or ""
        target = pair.target.context if pair.target else ""
        report = Report(pair.target_name, place, pair.source.context, target)
        async with limit:
            task = progress.task(f"{verb} {pair.title}")
            try:
                await work(pair, report, lambda text: task.update(0, note=text))
            except (Failed, InvalidConfig) as error:
                report.state = "failed"
                report.message = str(error)
            task.finish(report.state)
        return report

    async def every() -> list[Report]:
        return list(await asyncio.gather(*(one(pair) for pair in pairs)))

    with progress:
        return await ticking(progress, every())
