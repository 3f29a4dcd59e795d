"""Settings of moves: pods that are in a target where they should not be go to another."""

from dataclasses import dataclass

from agent.base.flags import flag
from agent.base.forms import DURATION, POSITIVE, SWITCH, whole


@dataclass(frozen=True, kw_only=True)
class Moves:
    """Moves of running pods."""

    moves: bool = flag(
        SWITCH,
        "false",
        "move running pods to another target when theirs is not one that they may be in any more; off: what is said of"
        " targets counts for new pods only",
    )
    withdraw: float = flag(
        DURATION, "5s", "how long no Service leads to a pod any more before it ends because its replacement is there"
    )
    move_parallel: int = flag(whole(1), "32", "replacements that wait or start at the same time")
    move_rate: float = flag(POSITIVE, "10", "moves that may begin in a second")
