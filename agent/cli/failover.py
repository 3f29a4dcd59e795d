"""flotilla failover: show the state of an unreachable target, and shorten the wait for it."""

import asyncio
from typing import Annotated, Any

import typer

from agent.api import names
from agent.api.conditions import condition_of
from agent.api.names import lifecycle
from agent.cli.agentflags import AgentFlag, settings_of
from agent.cli.drain import TargetName, resolve
from agent.cli.draining.retirer import Retirer
from agent.cli.fleet.source_queries import source
from agent.cli.moving.leaving import show_leaving
from agent.cli.moving.world import Meant
from agent.cli.options import Context, Failed, Kubeconfig, Namespace, duration, finish

DEFAULT_SECONDS = 30.0
_POLL_SECONDS = 0.5
_SHOWN = ("Reachable", lifecycle.TARGET_LOST, lifecycle.FAILOVER_HELD, lifecycle.STABLE)

Raw = dict[str, Any]


def failover(
    target: TargetName,
    namespace: Namespace = "",
    now: Annotated[bool, typer.Option("--now", help="Replace its pods from now on, also where that is held.")] = False,
    timeout: Annotated[float, duration(least="1s", help="With --now: how long the agent may take.")] = DEFAULT_SECONDS,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would become of all its pods if it were lost.")
    ] = False,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    agent_flag: AgentFlag = [],  # noqa: B006
) -> None:
    """Say whether a target is lost, so that its pods are replaced elsewhere; --now does not wait for that.

    --dry-run judges all pods of the target together, also while it answers: which would be replaced, where, and which
    would find no room. Nothing is changed.

    Pods that must not run twice, and those whose failover-after is never, stay: for these a person has to certify
    that nothing of the target still runs, by multicluster/lost on the Target.
    """

    if now and dry_run:
        raise typer.BadParameter("--dry-run changes nothing: leave out --now")
    settings = settings_of(agent_flag)

    async def run() -> None:
        async with source(kubeconfig, context, namespace) as found:
            key = await resolve(found, target)
            about = Retirer(found.client, key)
            title = "/".join(part for part in key if part)
            if dry_run:
                await show_leaving(found.client, Meant(lost=names.virtual_node(*key)), settings, title)
                print(f"target {title} would be lost; nothing was changed", flush=True)
                return
            if now:
                await _ask(about, title, timeout)
            for line in told(await about.target()):
                print(line, flush=True)

    finish(run())


async def _ask(about: Retirer, title: str, seconds: float) -> None:
    obj = await about.target()
    why = objection(obj, title)
    if why:
        raise Failed(why)
    await about.annotate({names.SHORT_PREFIX + lifecycle.FAILOVER_NOW: "true"})
    try:
        async with asyncio.timeout(seconds):
            while True:
                if _condition(await about.target(), lifecycle.TARGET_LOST).get("status") == "True":
                    return
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise Failed(
            f"after {seconds:g} s the agent has not begun to replace pods of target {title}: see that it runs, and that"
            " the target does not answer it"
        ) from None


def objection(target: Raw, title: str) -> str:
    """Return why a target cannot fail over, with the remedy; empty if it can."""
    if not _condition(target, lifecycle.STABLE):
        return (
            "the agent of this cluster moves no pods: remove its flag --no-moves (agent.settings.moves=false of the"
            " chart; see docs/guides/failover.md)"
        )
    if _condition(target, "Reachable").get("status") != "False":
        return f"target {title} answers: empty it by `flotilla drain {title.rpartition('/')[2]}`"
    return ""


def told(target: Raw) -> list[str]:
    """Return the conditions of a Target that concern failover, one line each."""
    found = [(kind, _condition(target, kind)) for kind in _SHOWN]
    return [f"{kind}: {each['status']} ({each.get('reason')}): {each.get('message')}" for kind, each in found if each]


def _condition(target: Raw, kind: str) -> Raw:
    return dict(condition_of(target, kind) or {})
