"""Reads one target: its Target, its virtual node, and its cluster as far as the user may."""

import contextlib

from agent.api.kinds import SECRETS
from agent.base.clock import Clock
from agent.cli.checks import credentials
from agent.cli.checks.about import read_cluster
from agent.cli.checks.access import not_granted
from agent.cli.checks.lookup import services_of
from agent.cli.checks.view import Credentials, TargetView
from agent.cli.fleet.source_queries import place_of
from agent.cli.fleet.target_queries import Connections
from agent.controllers.target import gather
from agent.controllers.target.gather import Problem
from agent.kube.client import Client
from agent.kube.errors import KubeError
from agent.kube.store import Object


async def read_target(source: Client, to: Connections, target: Object, node: Object | None, clock: Clock) -> TargetView:
    """All that is to be had; what is not is said."""
    told = TargetView(target.decode(), node.decode() if node is not None else None)
    try:
        place = place_of(target)
        if place is None:
            return told
        ends = await _credentials(source, place)
    except (Problem, KubeError) as error:
        return TargetView(told.manifest, told.node, unread=str(error))
    try:
        client = await to.to(target)
        cluster = await read_cluster(client, told.title, clock)
        missing = await not_granted(client, target.namespace)
    except (Problem, KubeError) as error:
        return TargetView(told.manifest, told.node, ends, unread=str(error))
    services = None
    with contextlib.suppress(KubeError):
        services = await services_of(client, target.namespace)
    return TargetView(told.manifest, told.node, ends, cluster, missing, services=services)


async def _credentials(source: Client, place: gather.Reference) -> Credentials | None:
    secret = Object(SECRETS, await source.get_raw(SECRETS, place.secret[1], place.secret[0]))
    return credentials.read(str(place), gather.kubeconfig(place, secret), place.context)
