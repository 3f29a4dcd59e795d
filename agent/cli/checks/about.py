"""Reads the facts that every cluster publishes: versions, agent, clock."""

import contextlib
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

from agent.base.clock import Clock
from agent.cli.checks.view import ClusterView
from agent.cli.fleet.source_queries import read_leases
from agent.cli.fleet.target_queries import agent_version, kubernetes_version, read_summary
from agent.kube.client import Client
from agent.kube.errors import KubeError


async def read_cluster(client: Client, title: str, clock: Clock) -> ClusterView:
    """Read version, clock skew, summary and leases of a cluster. Raises KubeError if it does not answer."""
    begun = clock.now()
    kubernetes = await kubernetes_version(client)
    skew = skew_of(client.session.date, begun, clock.now())
    has_summary: bool | None = None
    agent = ""
    try:
        summary = await read_summary(client)
        has_summary, agent = summary is not None, agent_version(summary)
    except KubeError:
        # The check of rights reports a missing right to read it.
        pass
    leases = None
    with contextlib.suppress(KubeError):
        leases = tuple(await read_leases(client))
    return ClusterView(title, kubernetes, has_summary, agent, leases, skew)


def skew_of(date: str, asked: datetime, answered: datetime) -> float | None:
    """Return the seconds that a clock is ahead of ours, from an answer's Date header, which has whole seconds."""
    try:
        told = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    if told.tzinfo is None:
        return None
    middle = asked + (answered - asked) / 2
    return (told + timedelta(seconds=0.5) - middle).total_seconds()
