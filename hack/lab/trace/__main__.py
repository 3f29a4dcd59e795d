"""`hack/trace`: prints the functions that the scheduler calls for one pod, and the number of their modules."""

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from agent.api.names import SCHEDULING_MODES
from agent.cli.progress import default
from agent.kube.errors import KubeError
from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.signals import INTERRUPTED, until_signal
from hack.lab.sandbox import SandboxError
from hack.lab.sandbox.objects import REPOSITORY
from hack.lab.trace import report
from hack.lab.trace.fleet import trace


def main(arguments: list[str]) -> int:
    """Return the exit status: 0 if the pod was traced, 1 if not, 130 after a signal."""
    options = parse(arguments)
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s: %(message)s")
    work = trace(options.mode, default(), directory=options.dir, whole=options.whole)
    try:
        traced = asyncio.run(until_signal("hack/trace", work))
    except (BenchError, SandboxError, KubeError) as error:
        print(f"hack/trace: {error}", file=sys.stderr)
        return 1
    except (asyncio.CancelledError, KeyboardInterrupt):
        print("hack/trace: interrupted; everything started was taken down", file=sys.stderr)
        return INTERRUPTED
    print("\n".join(report.lines(traced, REPOSITORY, whole=options.whole)))
    return 0


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parse the options. Exits with usage if they are invalid."""
    parser = argparse.ArgumentParser(
        prog="hack/trace",
        description="Which modules and functions one pod passes, from the scheduler's reconcile to the last write.",
    )
    parser.add_argument("--mode", choices=SCHEDULING_MODES, default="ranked", help="how the pod is scheduled")
    parser.add_argument("--dir", type=Path, metavar="DIR", help="of a sandbox that is up, its clusters joined")
    parser.add_argument(
        "--whole",
        action="store_true",
        help="also webhook, other controllers and targets: modules only, one controller after the other",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
