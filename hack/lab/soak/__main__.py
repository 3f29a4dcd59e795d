"""`hack/soak`: runs a fleet under load and faults; exit status 1 after violations."""

import argparse
import asyncio
import logging
import random
import sys
import tempfile
from pathlib import Path

from agent.cli.progress import default
from agent.kube.errors import KubeError
from hack.lab.benchmarks.arguments import count
from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.report import budget_figures, json_line
from hack.lab.benchmarks.signals import INTERRUPTED, until_signal
from hack.lab.sandbox import SandboxError
from hack.lab.soak import plan as plans
from hack.lab.soak import report
from hack.lab.soak.errors import SoakError
from hack.lab.soak.load import budgets as load_budgets
from hack.lab.soak.load import load
from hack.lab.soak.soak import soak

MINUTES, PODS = 20.0, 500
LOAD_MINUTES, LOAD_PODS = 15.0, 5000


def main(arguments: list[str]) -> int:
    """Return the exit status: 0 without violations, 1 with some, 2 if the soak failed, 130 after a signal."""
    options = parse(arguments)
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s: %(message)s")
    try:
        if options.load:
            return asyncio.run(until_signal("hack/soak", _load(options)))
        plan, out = _planned(options)
        return asyncio.run(until_signal("hack/soak", _soak(plan, out, options)))
    except (BenchError, SandboxError, SoakError, KubeError) as error:
        print(f"hack/soak: {error}", file=sys.stderr)
        return 2
    except (asyncio.CancelledError, KeyboardInterrupt):
        print("hack/soak: interrupted; everything started was taken down", file=sys.stderr)
        return INTERRUPTED


async def _soak(plan: plans.Plan, out: Path, options: argparse.Namespace) -> int:
    result = await soak(plan, default(), _say, keep=out, always=options.keep)
    lines = report.lines(result)
    figures = json_line(report.figures(result))
    _write(out / "report.txt", "\n".join(lines))
    _write(out / "report.json", figures)
    print("\n".join(lines))
    if result.violations or options.keep:
        print(f"\nlogs of agents and API servers: {out}")
    if options.json:
        print(figures)
    return 1 if result.violations else 0


async def _load(options: argparse.Namespace) -> int:
    found, figures = await load(options.pods or LOAD_PODS, options.minutes or LOAD_MINUTES, default(), _say)
    budgets = load_budgets(found, figures)
    print("\n".join(report.load_lines(found, figures, budgets)))
    if options.json:
        print(json_line({"load": found.__dict__, "memory_mib": figures.memory, "budgets": budget_figures(budgets)}))
    return 0 if all(budget.kept for budget in budgets) else 1


def _say(text: str) -> None:
    print(text, flush=True)


def _planned(options: argparse.Namespace) -> tuple[plans.Plan, Path]:
    """Return the plan, and the folder for it and its results."""
    plan = (
        plans.read(options.plan)
        if options.plan
        else plans.make(options.seed, options.minutes or MINUTES, options.pods or PODS)
    )
    out: Path = options.out or Path(tempfile.mkdtemp(prefix="flotilla-soak-"))
    out.mkdir(parents=True, exist_ok=True)
    path = out / "plan.jsonl"
    path.write_bytes(plan.dump())
    head, faults, steps = plan.head, len(plan.faults), len(plan.steps)
    print(f"seed {head.seed}, {head.minutes:g} minutes, {head.pods} pods: {faults} faults, {steps} steps of users")
    print(f"the plan, to be done again with --plan: {path}", flush=True)
    return plan, out


def _write(path: Path, text: str) -> None:
    path.write_text(text + "\n")


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parse the options. Exits with usage if they are invalid."""
    parser = argparse.ArgumentParser(
        prog="hack/soak", description="Work and faults for a fleet of three clusters; judged by audit logs (root)."
    )
    parser.add_argument("--minutes", type=_positive, metavar="N", help="how long (default 20; with --load 15)")
    parser.add_argument(
        "--seed", type=int, default=random.randrange(1 << 32), metavar="S", help="of the plan; else any"
    )
    parser.add_argument("--pods", type=count, metavar="N", help="pods at a time (default 500; with --load 5000)")
    parser.add_argument("--load", action="store_true", help="many pods over ten targets, without faults: what it takes")
    parser.add_argument("--plan", type=Path, metavar="FILE", help="do this plan instead")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where plan, report and, if need be, logs are kept")
    parser.add_argument("--keep", action="store_true", help="keep logs although nothing is wrong")
    parser.add_argument("--json", action="store_true", help="print the result as a JSON object on the last line")
    return parser.parse_args(arguments)


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 24 * 60:
        raise argparse.ArgumentTypeError("above 0, and less than a day")
    return value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
