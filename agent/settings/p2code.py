"""Settings of whole applications that P2CodeSchedulingManifests describe."""

from dataclasses import dataclass
from typing import Literal

from agent.base.flags import flag
from agent.base.forms import SWITCH, TEXT, one_of

Precedence = Literal["global", "and"]


@dataclass(frozen=True, kw_only=True)
class Applications:
    """Whole applications, as P2CODE's scheduler takes them."""

    p2code: bool = flag(
        SWITCH,
        "false",
        "serve P2CodeSchedulingManifests: bundle their manifests, have a cluster chosen for each bundle",
    )
    p2code_precedence: Precedence = flag(
        one_of("global", "and"),
        "global",
        "with p2code, what counts of a filter that is both among globalAnnotations and among a workload's: global (the"
        " global one, and a condition says so), and (both, as P2CODE's own scheduler has it)",
    )
    p2code_namespace: str = flag(
        TEXT,
        "",
        "with p2code, the only namespace whose P2CodeSchedulingManifests are served, as p2code-scheduler-system;"
        " empty: all",
    )
