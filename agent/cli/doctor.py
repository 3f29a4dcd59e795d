"""flotilla doctor: checks for operators' mistakes, each with the remedy."""

import asyncio
import sys
import time
from collections import Counter
from typing import Annotated

import typer

from agent.base.clock import SystemClock
from agent.cli.checks.examine import examine
from agent.cli.checks.finding import Finding, Level
from agent.cli.checks.gather import Gatherer
from agent.cli.fleet import show
from agent.cli.fleet.source_queries import source
from agent.cli.fleet.target_queries import connections
from agent.cli.options import Context, Kubeconfig, Output, OutputOption, duration, finish

_PAUSE_SECONDS = 2.0
_STYLES = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}


def doctor(
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Where an elected pod is tried; by default a labelled one.")
    ] = "",
    installation: Annotated[
        bool,
        typer.Option("--installation", help="Only what the chart installed here, with the rights of `helm test`."),
    ] = False,
    timeout: Annotated[float, duration("--timeout", help="How long to look again until all is well.")] = 0.0,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Only what is not well.")] = False,
    output: OutputOption = Output.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Check an installation, one line for each thing: OK, WARN or FAIL, what it is, and what helps.

    Of the cluster of the context and its targets; nothing is changed. Run it in each cluster: some of it only that
    cluster's own administrator can see. Exit status 1 when anything is not OK.
    """
    findings = finish(_findings(namespace, kubeconfig, context, installation=installation, timeout=timeout))
    counts = Counter(each.level for each in findings)
    shown = [each for each in findings if not quiet or each.level is not Level.OK]
    if output in (Output.JSON, Output.YAML):
        show.show(show.Found("findings", shown), output, ((), ()))
    else:
        _print(shown)
        print(f"{counts[Level.OK]} OK, {counts[Level.WARN]} WARN, {counts[Level.FAIL]} FAIL")
    if counts[Level.WARN] or counts[Level.FAIL]:
        raise typer.Exit(1)


async def _findings(
    namespace: str, kubeconfig: str, context: str, *, installation: bool, timeout: float
) -> list[Finding]:
    async with source(kubeconfig, context) as found, connections(found.client) as to:
        end = time.monotonic() + timeout
        while True:
            gatherer = Gatherer(found.client, to, SystemClock(), namespace)
            findings = examine(await (gatherer.installation() if installation else gatherer.view()))
            well = all(each.level is Level.OK for each in findings)
            if well or time.monotonic() >= end:
                return findings
            await asyncio.sleep(_PAUSE_SECONDS)


def _print(findings: list[Finding]) -> None:
    if not sys.stdout.isatty():
        for finding in findings:
            print(finding)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for finding in findings:
        line = Text(str(finding))
        line.stylize(_STYLES[finding.level], 0, len(finding.level))
        console.print(line, soft_wrap=True)
