"""Every setting of the agent, by topic; agent.base.flags says how they are given."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.base import flags
from agent.base.flags import InvalidSetting
from agent.settings.clusters import Connections, Sources, VirtualNodes
from agent.settings.moves import Moves
from agent.settings.p2code import Applications, Networks
from agent.settings.placement import Placements, PlacementSetting, UsageScores
from agent.settings.pods import Delegates, Followers
from agent.settings.process import Leadership, Process
from agent.settings.scheduling import Extender, Mode, Scheduling, Scores

__all__ = ["InvalidSetting", "Mode", "PlacementSetting", "Settings", "UsageScores", "check", "parse"]

check = flags.check


@dataclass(frozen=True, kw_only=True)
class Settings(
    Extender,
    Moves,
    Applications,
    Networks,
    Placements,
    Scores,
    Scheduling,
    Sources,
    Followers,
    Delegates,
    VirtualNodes,
    Connections,
    Leadership,
    Process,
):
    """All topics, the last first; times are seconds."""

    @property
    def fence_wait(self) -> float:
        """For how long a fenced pod starts nowhere else after its delegate is gone by both clocks: no election in its
        target, whose agents are taken to be set up as these here, takes longer.
        """
        return max(self.fence_margin, self.lease_duration)


def parse(
    arguments: Sequence[str],
    program: str = "python -m agent",
    purpose: str = "Flotilla's agent: runs pods of one cluster in others, and others' pods here.",
) -> Settings:
    """Settings from flags, then environment variables, then defaults.

    Exits with usage when a flag is unknown. Raises InvalidSetting.
    """
    return flags.parse(Settings, arguments, program=program, purpose=purpose, epilog=flags.DURATIONS)
