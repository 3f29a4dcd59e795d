"""Settings of the proxy scheduler, of the scores that it gives targets, and of the bind extender on the other side."""

import ipaddress
from dataclasses import dataclass
from typing import Literal

from agent.base.flags import InvalidSetting, flag, repeated
from agent.base.forms import ADDRESS, DURATION, FILE, NOT_NEGATIVE, SWITCH, Form, one_of, or_empty, whole
from agent.model import hostport, targetchoice
from agent.scheduling.extrascore import FORM, ExtraScore
from agent.scheduling.scores import Strategy, Weights

Mode = Literal["ranked", "reserve"]


def _extra_score(text: str) -> str:
    ExtraScore.parse(text)
    return text


def _targets(*, ordered: bool) -> Form[str]:
    def read(text: str) -> str:
        targetchoice.parse(text, ordered=ordered)
        return text

    return or_empty(Form("NAMES", read))


@dataclass(frozen=True, kw_only=True)
class Scheduling:
    """Scheduling."""

    max_in_flight: int = flag(whole(1), "64", "pods that are scheduled at the same time")
    scheduling: Mode = flag(
        one_of("ranked", "reserve"),
        "ranked",
        "how pods are placed whose annotations and namespace do not say: ranked (one target at a time) or reserve"
        " (candidates in all of them, which need a candidate scheduler there)",
    )
    targets: str = flag(
        _targets(ordered=True),
        "",
        "targets that pods may go to whose annotations and namespace do not say, as the annotation multicluster/targets"
        " has it; empty: all",
    )
    allowed_targets: str = flag(
        _targets(ordered=False),
        "",
        "targets that pods of any namespace may go to, as multicluster/allowed-targets has it; empty: all",
    )
    dwell: float = flag(
        DURATION, "30s", "how long a pod that no target can take stays where it is before it tries one again"
    )
    take_up: float = flag(
        DURATION,
        "60s",
        "how long nobody in a target, neither its agent nor the pod's scheduler, may do anything about a pod that was"
        " sent there before it goes to another target that can take it; longer than a scheduler that is at work, and"
        " has many pods to place, leaves all of this cluster's alone",
    )
    reserve_patience: float = flag(
        DURATION, "2s", "mode reserve: how long the first reservation waits for those that would be better"
    )
    reserve_candidates: int = flag(
        whole(0),
        "0",
        "mode reserve: how many candidates of a pod without a group may wait for a reservation, or have one, at a time,"
        " in the targets that rank best; another is made for each that is refused or told nothing; 0: in all targets",
    )
    group_timeout: float = flag(
        DURATION, "30s", "how long the pods of a group collect reservations before they give them all back"
    )
    candidate_scheduler: bool = flag(
        SWITCH,
        "true",
        "a candidate scheduler runs in this cluster; off: candidates are told to their sources as unschedulable",
    )


def _weight(default: float, text: str) -> float:
    return flag(NOT_NEGATIVE, f"{default:g}", text)


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Scores of targets."""

    placement_strategy: Strategy = flag(
        one_of("least", "most"), "least", "which target scores higher: the least allocated, or the most"
    )
    score_affinity: float = _weight(Weights.affinity, "weight of preferred node affinity over virtual nodes; 0: none")
    score_taints: float = _weight(Weights.taints, "weight of PreferNoSchedule taints of virtual nodes")
    score_pod_affinity: float = _weight(Weights.pod_affinity, "weight of preferred affinity and anti-affinity to pods")
    score_spread: float = _weight(Weights.spread, "weight of topology spread with ScheduleAnyway")
    score_placement: float = _weight(
        Weights.placement, "weight of the scores that the decisions of a pod's Placement give clusters"
    )
    score_target_weight: float = _weight(
        Weights.target_weight, "weight of the annotation multicluster/weight of Targets"
    )
    score_capacity: float = _weight(Weights.capacity, "weight of how little (or much) of a target is allocated")
    score_images: float = _weight(Weights.images, "weight of images that pods of this cluster have brought there")
    extra_score: tuple[str, ...] = repeated(
        Form(FORM, _extra_score),
        "score from -100 to 100 that an object gives the target whose ManagedCluster, or which itself, its namespace is"
        " named after, with its weight",
    )

    @property
    def weights(self) -> Weights:
        """How much each score of a target counts. Raises InvalidExtraScore."""
        return Weights(
            affinity=self.score_affinity,
            taints=self.score_taints,
            pod_affinity=self.score_pod_affinity,
            spread=self.score_spread,
            placement=self.score_placement,
            target_weight=self.score_target_weight,
            capacity=self.score_capacity,
            images=self.score_images,
            extra={score.name: score.weight for score in map(ExtraScore.parse, self.extra_score)},
            strategy=self.placement_strategy,
        )

    def check(self) -> None:
        """Raises InvalidSetting."""
        named = [ExtraScore.parse(text).name for text in self.extra_score]
        twice = next((name for name in named if named.count(name) > 1), None)
        if twice is not None:
            raise InvalidSetting(f"--extra-score: {twice} is given twice: keep one of them")


@dataclass(frozen=True, kw_only=True)
class Extender:
    """Bind extender for the candidate scheduler (mode reserve)."""

    extender_address: str = flag(
        or_empty(ADDRESS), "", "HOST:PORT of the bind extender for the candidate scheduler; empty: none is served"
    )
    extender_cert: str = flag(
        or_empty(FILE), "", "file of the extender's certificate; without one, it serves loopback only"
    )
    extender_key: str = flag(or_empty(FILE), "", "file of the certificate's key")
    extender_client_ca: str = flag(or_empty(FILE), "", "file of the CA whose client certificates the extender accepts")
    hold: float = flag(DURATION, "30s", "how long a candidate that has been given a node waits for its source's leave")

    def check(self) -> None:
        """Whoever reaches the extender can have candidates bound: it is on loopback, or knows its clients.

        Raises InvalidSetting.
        """
        if not self.extender_address:
            return
        host, port = hostport.split(self.extender_address)
        if not port:
            raise InvalidSetting(f"--extender-address={self.extender_address}: the port must be 1 or more")
        files = (self.extender_cert, self.extender_key, self.extender_client_ca)
        if any(files) and not all(files):
            raise InvalidSetting(
                "--extender-cert, --extender-key and --extender-client-ca belong together: give all three or none"
            )
        if not any(files) and not _is_loopback(host):
            raise InvalidSetting(
                f"--extender-address={self.extender_address}: is not a loopback address, and plain HTTP is served on"
                " those only: use 127.0.0.1, or give --extender-cert, --extender-key and --extender-client-ca"
            )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
