"""`python -m agent`: the agent process."""

import sys

from agent import app
from agent.base.log import configure
from agent.kube.errors import InvalidConfig
from agent.runtime.process import run_until_signal
from agent.settings import InvalidSetting, parse


def main() -> int:
    """Exit status: 0 after a signal, 1 for settings or a kubeconfig that cannot be used, 2 for usage."""
    failed: list[BaseException] = []
    try:
        settings = parse(sys.argv[1:])
        configure(settings.log_level, settings.log_json, cluster=settings.cluster_name)
        run_until_signal(app.run(settings))
    except* (InvalidSetting, InvalidConfig, OSError) as group:
        failed += group.exceptions
    for error in failed:
        sys.stderr.write(f"agent: {error}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
