"""All settings of the agent by topic; `agent.base.flags` reads them from flags and environment variables."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.base import flags
from agent.base.flags import InvalidSetting
from agent.settings.clusters import Connections, Hubs, Sources, VirtualNodes
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
    Hubs,
    Sources,
    Followers,
    Delegates,
    VirtualNodes,
    Connections,
    Leadership,
    Process,
):
    """All settings; help and pages list the topics from the last base class to the first. Times are in seconds."""

    @property
    def fence_wait(self) -> float:
        """Seconds that a fenced pod's replacement waits after the fence has expired by the clocks of both clusters.

        A leader election in the target takes no longer, if its agents have the same settings.
        """
        return max(self.fence_margin, self.lease_duration)


def parse(
    arguments: Sequence[str],
    program: str = "python -m agent",
    purpose: str = "Flotilla's agent: runs pods of one cluster in others, and others' pods here.",
) -> Settings:
    """Return the settings from flags, then environment variables, then defaults. Exits with usage for unknown flags.

    :raises InvalidSetting: if a value is invalid or contradicts another
    """
    return flags.parse(Settings, arguments, program=program, purpose=purpose, epilog=flags.DURATIONS)
