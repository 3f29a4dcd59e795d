"""Limit of inotify instances per user: a process without one ends, as Envoy does, or misses changes."""

import contextlib
from pathlib import Path

LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
INSTANCES = 1024
"""Smallest limit that a sandbox needs. Many machines have 128; a real node takes 20 to 30, a control plane 10
and a gateway 1 to 3.
"""


def allow(limit: Path = LIMIT) -> None:
    """Raise the limit until the next boot; keep it if the file cannot be written."""
    with contextlib.suppress(OSError, ValueError):
        if int(limit.read_text()) < INSTANCES:
            limit.write_text(str(INSTANCES))
