"""`python -m agent`: the agent process."""

import sys

from agent import app
from agent.runtime.entry import run_process
from agent.settings import parse


def main() -> int:
    """Exit status: 0 after a signal, 1 for settings or a kubeconfig that cannot be used, 2 for usage."""
    return run_process("agent", lambda: parse(sys.argv[1:]), app.run)


if __name__ == "__main__":
    sys.exit(main())
