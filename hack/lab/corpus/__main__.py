"""`hack/corpus`: compares plain and elected manifests; exit status 1 if one differs and is not listed as expected."""

import argparse
import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from agent.cli.progress import default
from agent.kube.errors import KubeError
from hack.lab.benchmarks.arguments import count
from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.lab import Lab, lab_in, new_directory
from hack.lab.benchmarks.signals import INTERRUPTED, until_signal
from hack.lab.corpus import report
from hack.lab.corpus.errors import CorpusError
from hack.lab.corpus.expected import EXPECTED
from hack.lab.corpus.files import OWN, File, read
from hack.lab.corpus.ground import Ground, ground_of, parts_of
from hack.lab.corpus.run import SIDE_BY_SIDE, run
from hack.lab.corpus.trial import PATIENCE_SECONDS, Result
from hack.lab.sandbox import Sandbox, SandboxError

CLUSTERS = ("cd", "us", "eu", "plain")
_NODES = 5
_REQUEST_SECONDS = 60.0
"""Seconds until a request times out: a comparison reads some hundred lists, which is slow on a busy machine."""


def main(arguments: Sequence[str]) -> int:
    """Return the exit status: 0 if all are alike or differ as expected, 1 if not, 2 if the comparison failed."""
    options = parse(arguments)
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s: %(message)s")
    try:
        files = chosen(read(options.directory), options.only)
        return asyncio.run(until_signal("hack/corpus", _compare(files, options)))
    except (BenchError, CorpusError, SandboxError, KubeError) as error:
        print(f"hack/corpus: {error}", file=sys.stderr)
        return 2
    except (asyncio.CancelledError, KeyboardInterrupt):
        print("hack/corpus: interrupted; everything started was taken down", file=sys.stderr)
        return INTERRUPTED


async def _compare(files: Sequence[File], options: argparse.Namespace) -> int:
    expected = EXPECTED if options.directory == OWN else {}

    def note(result: Result) -> None:
        print(report.line(result, expected), flush=True)

    async with _ground(options.sandbox) as ground:
        results = await run(ground, files, note, side_by_side=options.side_by_side, patience=options.patience)
    print("\n" + "\n".join(report.table(results, expected)))
    return 1 if report.unexpected(results, expected) else 0


@contextlib.asynccontextmanager
async def _ground(running: Path | None) -> AsyncIterator[Ground]:
    """Yield the clusters of a new sandbox, or of the sandbox in a directory."""
    progress = default()
    if running is None:
        sandbox = Sandbox(new_directory(), CLUSTERS, f"kwok:{_NODES}", progress=progress)
        async with lab_in(sandbox, progress) as lab, _ground_in(lab) as ground:
            yield ground
        return
    lab = Lab(Sandbox.open(running, progress), progress)
    try:
        async with _ground_in(lab) as ground:
            yield ground
    finally:
        await lab.close()


@contextlib.asynccontextmanager
async def _ground_in(lab: Lab) -> AsyncIterator[Ground]:
    if not lab.sandbox.plan.agents:
        raise CorpusError(f"the sandbox in {lab.sandbox.directory} has no agents: start one without --no-agents")
    for client in lab.clients.values():
        client.session.timeout = _REQUEST_SECONDS
    source, targets, plain = parts_of(lab.names)
    async with ground_of(lab.sandbox, lab.clients, source=source, targets=targets, plain=plain) as ground:
        yield ground


def chosen(files: Sequence[File], only: Sequence[str]) -> list[File]:
    """Return the requested files; all if none is requested. Raises CorpusError for an unknown name."""
    known = {file.name: file for file in files}
    if unknown := [name for name in only if name not in known]:
        raise CorpusError(f"no manifest is called {unknown[0]}: there are {', '.join(known)}")
    return [known[name] for name in only] if only else list(files)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the options. Exits with usage if they are invalid."""
    parser = argparse.ArgumentParser(
        prog="hack/corpus", description="Manifests applied unchanged, to a plain cluster and where they are elected."
    )
    parser.add_argument(
        "directory", nargs="?", type=Path, default=OWN, help="of manifests, at any depth (default: our own 69)"
    )
    parser.add_argument("--only", action="append", default=[], metavar="FILE", help="only this one; may be repeated")
    parser.add_argument(
        "--sandbox",
        type=Path,
        metavar="DIR",
        help="take that which runs there: its first cluster is the source,"
        " its last one the plain one, those between are targets",
    )
    parser.add_argument("--side-by-side", type=count, default=SIDE_BY_SIDE, metavar="N", help="manifests at a time")
    parser.add_argument(
        "--patience", type=count, default=PATIENCE_SECONDS, metavar="SECONDS", help="until both have to be alike"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
