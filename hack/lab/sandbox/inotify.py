"""How many inotify instances a user may have: a process that gets none ends, as Envoy does, or misses changes."""

import contextlib
from pathlib import Path

LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
INSTANCES = 1024
"""What the machine is made to allow, where that is less: many have 128, of which a real node takes 20 to 30, a
control plane 10 and a gateway 1 to 3. It is a ceiling, so nothing else behaves differently."""


def allow(limit: Path = LIMIT) -> None:
    """Raise the limit until the next boot; it stays where it may not be written."""
    with contextlib.suppress(OSError, ValueError):
        if int(limit.read_text()) < INSTANCES:
            limit.write_text(str(INSTANCES))
