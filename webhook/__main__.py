"""`python -m webhook`."""

import sys
from asyncio.sslproto import SSLProtocol

from agent.base import log
from agent.kube.errors import InvalidConfig
from agent.runtime.process import run_until_signal
from webhook.app import run
from webhook.settings import parse

TLS_BUFFER = 32 * 1024
"""Read buffer of a TLS connection in bytes: two records. asyncio's own 256 KiB cost 320 KiB of memory per connection
(100 KiB with this), and an API server opens one connection per request under way."""


def main() -> None:
    """Run with the process' own arguments and environment."""
    settings = parse(sys.argv[1:])
    log.configure(settings.log_level, settings.log_json)
    SSLProtocol.max_size = TLS_BUFFER
    try:
        run_until_signal(run(settings))
    except (InvalidConfig, OSError) as error:
        sys.exit(f"webhook: {error}")


if __name__ == "__main__":
    main()
