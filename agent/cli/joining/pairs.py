"""`flotilla join` for each pair of clusters: examine each cluster once per role, then join the pairs."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Literal

from agent.api.kinds import SECRETS, SERVICE_ACCOUNTS
from agent.cli.joining.checks import Known, Right, examine, keep_accounts_apart
from agent.cli.joining.contexts import Side, telling
from agent.cli.joining.fleet import Order, Pair, Say
from agent.cli.joining.joiner import Joiner, Terms
from agent.cli.joining.manifests import Names
from agent.cli.joining.objects import Report
from agent.cli.options import Failed

Role = Literal["source", "target"]


class Joining:
    """Joins pairs; examines each cluster once, regardless of the number of its pairs."""

    def __init__(self, order: Order, terms: Terms) -> None:
        self._order = order
        self._terms = terms
        self._examined: dict[tuple[str, Role], asyncio.Future[Known]] = {}

    async def __call__(self, pair: Pair, report: Report, say: Say) -> None:
        """Join one pair. Raises Failed."""
        assert pair.target is not None
        say("checking both clusters")
        source, target = await _both(
            self._examine(pair.source, "source", pair.names()), self._examine(pair.target, "target", pair.names())
        )
        report.notes += [*source.notes, *target.notes]
        if source.uid and source.uid == target.uid:
            raise Failed(
                f"contexts {pair.source.context} and {pair.target.context} are the same cluster: for a cluster that is"
                " its own target, create a Target with spec.self: true"
            )
        names = pair.names((source.home, target.home))
        if names.cluster_scoped:
            with telling(pair.target.title):
                await keep_accounts_apart(pair.target, [pair.source], names, report.notes)
        terms = replace(self._terms, way=self._order.ways.get(pair.target.context, self._terms.way))
        await Joiner(pair.source, pair.target, names, (source.uid, target.uid), terms, say, report).run()

    async def _examine(self, cluster: Side, role: Role, names: Names) -> Known:
        key = (cluster.context, role)
        if key not in self._examined:
            self._examined[key] = asyncio.ensure_future(self._ask(cluster, role, names))
        return await asyncio.shield(self._examined[key])

    async def _ask(self, cluster: Side, role: Role, names: Names) -> Known:
        namespace = names.source_namespace if role == "source" else names.target_namespace
        kind = names.target_kind if role == "source" else names.source_kind
        with telling(cluster.title):
            return await examine(cluster, kind, namespace, rights(role, names), agentless=self._order.agentless)


async def _both(source: Awaitable[Known], target: Awaitable[Known]) -> tuple[Known, Known]:
    """Wait for facts about both clusters. Raises Failed with the failures of both."""
    found = await asyncio.gather(source, target, return_exceptions=True)
    amiss = list(dict.fromkeys(str(each) for each in found if isinstance(each, Failed)))
    if amiss:
        raise Failed("; ".join(amiss))
    first, second = found
    if isinstance(first, BaseException):
        raise first
    if isinstance(second, BaseException):
        raise second
    return first, second


def rights(role: Role, names: Names) -> list[Right]:
    """Return the rights that a user needs in a cluster to join it."""
    kind = names.target_kind if role == "source" else names.source_kind
    found = [Right(kind, verb, None, f"{kind.plural} are made") for verb in ("get", "create", "patch")]
    if role == "source":
        return found + [Right(SECRETS, verb, None, "the target's kubeconfig") for verb in ("get", "create", "patch")]
    return [
        *found,
        Right(SERVICE_ACCOUNTS, "get", None, "the agent there makes one for the source"),
        Right(SERVICE_ACCOUNTS, "create", None, "the source's token", "token"),
    ]
