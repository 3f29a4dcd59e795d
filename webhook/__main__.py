"""`python -m webhook`."""

import sys

from agent.base import log
from agent.kube.errors import InvalidConfig
from agent.runtime.process import run_until_signal
from webhook.app import run
from webhook.settings import InvalidSetting, parse


def main() -> None:
    """Run with the process' own arguments and environment."""
    try:
        settings = parse(sys.argv[1:])
    except InvalidSetting as error:
        sys.stderr.write(f"webhook: {error}\n")
        sys.exit(2)
    log.configure(settings.log_level, settings.log_json)
    try:
        run_until_signal(run(settings), settings.event_loop)
    except (InvalidConfig, InvalidSetting, OSError) as error:
        sys.exit(f"webhook: {error}")


if __name__ == "__main__":
    main()
