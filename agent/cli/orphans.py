"""flotilla orphans: show and delete objects of sources that no longer exist."""

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer

from agent.api.kinds import CHAPERONS, PERSISTENT_VOLUME_CLAIMS
from agent.base.clock import SystemClock
from agent.cli.fleet import show
from agent.cli.fleet.source_queries import source
from agent.cli.options import Context, Failed, Kubeconfig, Output, OutputOption, duration, finish
from agent.cli.orphaned.cleaning import clean
from agent.cli.orphaned.lines import SourceLine, State, source_lines, table
from agent.cli.orphaned.queries import own_uid, read_owned, read_signs
from agent.kube.client import Client

DEFAULT_SECONDS = 300.0
NEVER_SEEN = (
    "no sign: an agent of Flotilla that is too old gives none, and none are taken down where the agent of this cluster"
    " is too old, so see for yourself that the source is gone"
)


def orphans(
    uids: Annotated[
        list[str], typer.Argument(help="Only these sources: UIDs of their namespaces kube-system, or how these begin.")
    ] = [],  # noqa: B006
    every: Annotated[bool, typer.Option("--all", help="Also sources that are alive.")] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete all that these sources have here.")] = False,
    volumes: Annotated[
        bool, typer.Option("--volumes", help="With --delete: their volume claims, too, with the data in them.")
    ] = False,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Delete without asking.")] = False,
    timeout: Annotated[float, duration(least="1s", help="How long pods may take to end.")] = DEFAULT_SECONDS,
    output: OutputOption = Output.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Show what other clusters have in this one that are silent, or have never been heard of; --delete takes it away.

    Run it in a target. Sources whose agents are Admiralty's are not seen: what they make does not say whose it is.
    """
    now = SystemClock().now()

    async def run() -> list[SourceLine]:
        async with source(kubeconfig, context, everywhere=True) as found:
            lines = await _look(found.client, uids, now, every=every)
            if delete:
                check(lines, uids)
                for line in lines:
                    confirm(line, volumes=volumes, yes=yes)
                for line in lines:
                    await clean(found.client, line.uid, _say, volumes=volumes, seconds=timeout)
                    _say(f"source {line.title} has nothing here any more{_but_claims(line, volumes=volumes)}")
            return lines

    lines = finish(run())
    if not delete:
        notes = [NEVER_SEEN] if any(line.state is State.NO_SIGN for line in lines) else []
        shown = table(lines, now, wide=output is Output.WIDE)
        show.show(show.Found("sources", lines, notes), output, shown, empty="no orphans: every source is alive")


async def _look(client: Client, uids: Sequence[str], now: datetime, *, every: bool) -> list[SourceLine]:
    kinds = {"claims": PERSISTENT_VOLUME_CLAIMS.name, "chaperons": CHAPERONS.name}
    found = source_lines(await read_owned(client), await read_signs(client), await own_uid(client), now, **kinds)
    if uids:
        return [chosen(found, uid) for uid in dict.fromkeys(uids)]
    return [line for line in found if every or line.state in (State.SILENT, State.NO_SIGN)]


def chosen(lines: Sequence[SourceLine], uid: str) -> SourceLine:
    """Return the source with this UID or prefix of a UID. Raises Failed."""
    found = [line for line in lines if line.uid.startswith(uid)]
    if len(found) != 1:
        known = ", ".join(line.uid for line in found or lines) or "none"
        raise Failed(f"{'several sources begin' if found else 'no source begins'} with {uid} (there is: {known})")
    return found[0]


def check(lines: Sequence[SourceLine], uids: Sequence[str]) -> None:
    """Raise Failed unless every source is named and none is alive."""
    if not uids:
        raise Failed("which sources? name their UIDs: `flotilla orphans` shows them")
    for line in lines:
        if line.state is State.HERE:
            raise Failed(f"{line.uid} is this cluster itself, whose agent takes its own orphans away")
        if line.state is State.ALIVE:
            raise Failed(f"source {line.title} is alive: remove its Target there, and its agent takes all away")


def confirm(line: SourceLine, *, volumes: bool, yes: bool) -> None:
    """Raise Failed unless the user agrees to the deletion, which the prompt describes."""
    claims = f", and {line.claims} volume claims with their data" if volumes and line.claims else ""
    what = f"{line.pods} pods, {line.copies} copies of what they need{claims}"
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failed(f"{what} of source {line.title} would go: say --yes to have them deleted without being asked")
    if not typer.confirm(f"Source {line.title}: {line.state}. Delete {what}?"):
        raise Failed("nothing was deleted")


def _but_claims(line: SourceLine, *, volumes: bool) -> str:
    return f", but {line.claims} volume claims: --volumes deletes them with their data" * bool(
        line.claims and not volumes
    )


def _say(text: str) -> None:
    print(text, flush=True)
