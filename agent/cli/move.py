"""flotilla move and moves: move pods to other targets, and show the progress."""

import asyncio
import functools
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from agent.api.kinds import PODS
from agent.base.clock import SystemClock
from agent.cli.agentflags import AgentFlag, settings_of
from agent.cli.fleet import show
from agent.cli.fleet.source_queries import Source, agent_notes, moves_pods, read_proxies, read_targets, source
from agent.cli.moving import lines, objects
from agent.cli.moving.asking import OFF, Asking, Move
from agent.cli.moving.fates import Fate, fates_table
from agent.cli.moving.waiting import listed
from agent.cli.options import Context, Kubeconfig, Namespace, Output, OutputOption, duration, finish
from agent.cli.output import as_table
from agent.kube.store import Object
from agent.model import targetchoice
from agent.model.podstate import PROXY_PODS
from agent.runtime.informers import Informers
from agent.runtime.supervisor import Supervisor

DEFAULT_SECONDS, STUCK_SECONDS = 600.0, 60.0
_LOOK_SECONDS = 0.5


What = Annotated[
    str,
    typer.Argument(
        metavar="KIND/NAME",
        help="deployment, statefulset, replicaset, job, cronjob, pod or namespace.",
        autocompletion=objects.object_names,
    ),
]
To = Annotated[str, typer.Option("--to", metavar="TARGETS", help="Names of targets: us; us,eu; !us; us > eu.")]
StuckAfter = Annotated[
    float, duration(least="1s", help="With --wait: for how long nothing may happen where pods cannot move.")
]


def move(
    what: What,
    to: To = "",
    anywhere: Annotated[bool, typer.Option("--anywhere", help="To any target, as far as others allow.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all pods are there and Ready.")] = False,
    timeout: Annotated[float, duration(least="1s", help="With --wait: how long that may take.")] = DEFAULT_SECONDS,
    stuck_after: StuckAfter = STUCK_SECONDS,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would become of each pod.")] = False,
    output: OutputOption = Output.TABLE,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    agent_flag: AgentFlag = [],  # noqa: B006
) -> None:
    """Say which targets pods may be in, by multicluster/targets: those that are elsewhere move.

    It says what becomes of each pod, and the agent does it, replacement first where that can be. Ctrl-C ends the wait
    and not the move.
    """
    asked = _asked(what, to, anywhere=anywhere, wait=wait, dry_run=dry_run)
    settings = settings_of(agent_flag)

    async def run() -> None:
        async with source(kubeconfig, context, namespace) as found:
            say = _say if output in (Output.TABLE, Output.WIDE) else functools.partial(print, file=sys.stderr)
            asking = Asking(found.client, found.namespace or "default", settings, say)
            fates = await asking.run(asked, timeout, stuck_after, lambda fates: _show(fates, asking.notes, output))
            if not fates and output is Output.TABLE:
                print("there are no proxy pods that would hear it", file=sys.stderr)

    try:
        finish(run())
    except KeyboardInterrupt:
        if wait:
            print("flotilla: what was written stays, and the agent goes on: `flotilla moves` shows it", file=sys.stderr)
        raise


def _asked(what: str, to: str, *, anywhere: bool, wait: bool, dry_run: bool) -> Move:
    """Return the move that the arguments describe. Raises BadParameter if they contradict each other."""
    if anywhere == bool(to.strip()):
        raise typer.BadParameter("say where to by --to, or --anywhere")
    if wait and dry_run:
        raise typer.BadParameter("--dry-run changes nothing that --wait could wait for")
    try:
        return Move(objects.named(what), targetchoice.parse(to).text, wait=wait, dry_run=dry_run)
    except (objects.InvalidName, targetchoice.InvalidChoice) as error:
        raise typer.BadParameter(str(error)) from None


def _show(fates: Sequence[Fate], notes: Sequence[str], output: Output) -> None:
    spaces = {fate.namespace for fate in fates}
    table = fates_table(fates, everywhere=len(spaces) > 1)
    show.show(show.Found("pods", fates, notes), output, table)


def moves(
    namespace: Namespace = "",
    all_namespaces: show.AllNamespaces = False,
    watch_: Annotated[bool, typer.Option("-w", "--watch", help="Go on, with a line for each change.")] = False,
    output: OutputOption = Output.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Show pods that move to another target, or should and do not: from where, where to, why, how far, since when."""
    if watch_ and output not in (Output.TABLE, Output.WIDE):
        raise typer.BadParameter("--watch writes lines of a table only")
    now = SystemClock().now()

    async def run() -> None:
        async with source(kubeconfig, context, namespace, everywhere=all_namespaces) as found:
            shown, targets = await _look(found)
            table = lines.moves_table(shown.lines, now, everywhere=all_namespaces)
            show.show(shown, output, table, empty="no pod moves, or should")
            if watch_:
                await _watch(found, targets, shown.lines)

    finish(run())


async def _look(where: Source) -> tuple[show.Found, list[Object]]:
    """Return the moves of a namespace, or of all, and the targets. Raises Failed, KubeError."""
    notes: list[str] = []
    targets = await read_targets(where.client, where.namespace, notes)
    pods = await read_proxies(where.client, where.namespace, notes)
    if targets and not moves_pods(targets):
        notes.append(OFF)
    notes += await agent_notes(where.client, SystemClock().now())
    found = lines.move_lines(pods, lines.titles_of(targets), where.namespace)
    return show.Found("moves", found, notes), targets


async def _watch(where: Source, targets: Sequence[Object], shown: Sequence[lines.MoveLine]) -> None:
    """Write a row for each change, without end."""
    titles = lines.titles_of(targets)
    async with Supervisor("moves") as supervisor:
        pods = Informers(where.client, supervisor).get(PODS, where.namespace, fields=PROXY_PODS)
        await listed(pods)
        while True:
            found = lines.move_lines(list(pods.store), titles, where.namespace)
            if changed := lines.changes(shown, found):
                table = lines.moves_table(changed, SystemClock().now(), everywhere=where.namespace is None)
                # The first table has printed the heads.
                _say(as_table(table, terminal=False).partition("\n")[2])
            shown = found
            await asyncio.sleep(_LOOK_SECONDS)


def _say(text: str) -> None:
    print(text, flush=True)
