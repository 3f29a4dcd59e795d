"""Settings of the proxy scheduler, and of the scores that it gives targets."""

from dataclasses import dataclass
from typing import Literal

from agent.base.flags import InvalidSetting, flag, repeated
from agent.base.forms import DURATION, NOT_NEGATIVE, SWITCH, Form, one_of, whole
from agent.scheduling.extrascore import FORM, ExtraScore
from agent.scheduling.scores import Strategy, Weights

Mode = Literal["ranked", "reserve"]


def _extra_score(text: str) -> str:
    ExtraScore.parse(text)
    return text


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
    score_target_weight: float = _weight(
        Weights.target_weight, "weight of the annotation multicluster/weight of Targets"
    )
    score_capacity: float = _weight(Weights.capacity, "weight of how little (or much) of a target is allocated")
    score_images: float = _weight(Weights.images, "weight of images that pods of this cluster have brought there")
    extra_score: tuple[str, ...] = repeated(
        Form(FORM, _extra_score),
        "score from -100 to 100 that an object gives the target after which its namespace is named, with its weight",
    )

    @property
    def weights(self) -> Weights:
        """How much each score of a target counts. Raises InvalidExtraScore."""
        return Weights(
            affinity=self.score_affinity,
            taints=self.score_taints,
            pod_affinity=self.score_pod_affinity,
            spread=self.score_spread,
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
