"""`python -m webhook`."""

import sys

from agent.base import log
from agent.kube.errors import InvalidConfig
from agent.runtime.process import run_until_signal
from webhook.app import run
from webhook.settings import parse


def main() -> None:
    """Run with the process' own arguments and environment."""
    settings = parse(sys.argv[1:])
    log.configure(settings.log_level, settings.log_json)
    try:
        run_until_signal(run(settings))
    except (InvalidConfig, OSError) as error:
        sys.exit(f"webhook: {error}")


if __name__ == "__main__":
    main()
