"""The entry of processes that have the agent's settings."""

import sys
from collections.abc import Callable, Coroutine
from typing import Any

from agent.base.log import configure
from agent.kube.errors import InvalidConfig
from agent.runtime.process import run_until_signal
from agent.settings import InvalidSetting, Settings


def run_process(name: str, parsed: Callable[[], Settings], run: Callable[[Settings], Coroutine[Any, Any, None]]) -> int:
    """Run a process by its settings; print one line for each error in these or a kubeconfig.

    Returns the exit status: 0 after a signal, 1 for invalid settings.
    """
    failed: list[BaseException] = []
    try:
        settings = parsed()
        configure(settings.log_level, settings.log_json, cluster=settings.cluster_name)
        run_until_signal(run(settings), settings.event_loop)
    except* (InvalidSetting, InvalidConfig, OSError) as group:
        failed += group.exceptions
    for error in failed:
        sys.stderr.write(f"{name}: {error}\n")
    return 1 if failed else 0
