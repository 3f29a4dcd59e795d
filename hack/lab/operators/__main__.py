"""`python -m hack.lab.operators [NAME ...]`: build operators into the cache, and print their paths."""

import argparse
import asyncio
import sys
from collections.abc import Sequence

from agent.cli.progress import default
from hack.lab.operators.programs import OPERATORS, find
from hack.lab.sandbox.errors import SandboxError


def main(arguments: Sequence[str]) -> int:
    """Return the exit status: 0 if all are built, else 1."""
    parser = argparse.ArgumentParser(prog="python -m hack.lab.operators", description="Build operators into the cache.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(OPERATORS)} (default: all)")
    names = parser.parse_args(arguments).names or [*OPERATORS]
    if unknown := [name for name in names if name not in OPERATORS]:
        parser.error(f"no operator is called {unknown[0]}: there are {', '.join(OPERATORS)}")
    try:
        for name in names:
            print(asyncio.run(find(OPERATORS[name], default())))
    except SandboxError as error:
        print(f"hack.lab.operators: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
