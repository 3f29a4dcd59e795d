"""Run `python -m tests.e2e.faults.othertime SECONDS ...`: the agent with a clock that is SECONDS ahead."""

import datetime
import sys
import time
import types

from agent import __main__ as agent
from agent.base import certificates, clock
from agent.kubelet import certificate


def set_ahead(seconds: float) -> None:
    """Replace the time of day in every module of the agent that reads it."""
    ahead, right, real = datetime.timedelta(seconds=seconds), time.time, datetime.datetime

    class Ahead(datetime.datetime):
        """datetime whose `now` is ahead."""

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
            return real.now(tz) + ahead

    other = types.ModuleType("datetime")
    vars(other).update(vars(datetime) | {"datetime": Ahead})
    certificate.datetime = other  # type: ignore[attr-defined]
    for module in (certificates, clock):
        module.datetime = Ahead  # type: ignore[attr-defined]
    time.time = lambda: right() + seconds


if __name__ == "__main__":
    set_ahead(float(sys.argv.pop(1)))
    sys.exit(agent.main())
