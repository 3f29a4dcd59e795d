"""Dry runs: the expected fate of all pods of a target that a user wants to drain, or that is lost."""

from agent.base.clock import SystemClock
from agent.cli.fleet import show
from agent.cli.fleet.source_queries import agent_notes, moves_pods, read_proxies, read_targets
from agent.cli.moving.asking import OFF
from agent.cli.moving.fates import fates_table, summary
from agent.cli.moving.preview import Preview
from agent.cli.moving.world import Meant, read_world
from agent.cli.options import Output
from agent.kube.client import Client
from agent.settings import Settings


async def show_leaving(client: Client, meant: Meant, settings: Settings, title: str) -> None:
    """Print the expected result for each pod of a target, if all pods leave at once. Raises Failed, KubeError.

    :param settings: of the agent, as far as they are known
    """
    notes: list[str] = []
    targets = await read_targets(client, None, notes)
    pods = await read_proxies(client, None, notes)
    world = await read_world(client, targets, pods, meant, notes)
    now = SystemClock().now()
    fates = await Preview(client, world, meant, settings, notes, now).rehearse()
    if meant.lost and world.is_failover_held:
        notes.append(
            "failover would be held, since most targets would not answer then: the agent would replace nothing until"
            f" you ran flotilla failover {title} --now"
        )
    if meant.lost:
        notes += [*([] if moves_pods(targets) else [OFF]), *await agent_notes(client, now)]
    found = show.Found("pods", fates, notes)
    below = [summary(fates)] if fates else []
    table = fates_table(fates, everywhere=True)
    show.show(found, Output.TABLE, table, empty=f"no pods are in target {title}", below=below)
