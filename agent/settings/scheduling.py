"""Settings of the proxy scheduler, its scores of targets, and the bind extender that runs in targets."""

import ipaddress
from dataclasses import dataclass
from typing import Literal

from agent.base.flag_values import ADDRESS, DURATION, FILE, NOT_NEGATIVE, SWITCH, Form, one_of, or_empty, whole
from agent.base.flags import InvalidSetting, flag, repeated, tuned
from agent.model import hostport, targetchoice
from agent.ranking.extrascore import FORM, ExtraScore
from agent.ranking.scores import Strategy, Weights

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

    max_in_flight: int = tuned(whole(1), "64", "number of pods that are scheduled at the same time")
    scheduling: Mode = flag(
        one_of("ranked", "reserve"),
        "ranked",
        "default mode of scheduling: ranked (one target at a time) or reserve (candidates in all targets, which need a"
        " candidate scheduler)",
    )
    targets: str = flag(
        _targets(ordered=True),
        "",
        "default targets of pods, in the form of the annotation multicluster/targets; empty: all",
    )
    allowed_targets: str = flag(
        _targets(ordered=False),
        "",
        "targets allowed to pods of all namespaces, in the form of multicluster/allowed-targets; empty: all",
    )
    dwell: float = tuned(
        DURATION, "30s", "how long a pod that fits in no target waits in its present target before it tries again"
    )
    take_up: float = tuned(
        DURATION,
        "60s",
        "how long a pod waits for a target whose agent or scheduler does not react, before it tries another"
        " target that fits. Must be longer than a busy scheduler takes between two pods of this cluster",
    )
    reserve_patience: float = tuned(
        DURATION, "2s", "mode reserve: how long the first reservation waits for better ones"
    )
    reserve_candidates: int = tuned(
        whole(0),
        "0",
        "mode reserve: candidates that a pod without a group has at a time, in the targets that rank best; each"
        " candidate that is refused or gets no response is replaced by one in another target; 0: candidates in all"
        " targets",
    )
    group_timeout: float = tuned(
        DURATION, "30s", "how long the pods of a group collect reservations before they release them all"
    )
    candidate_scheduler: bool = flag(
        SWITCH,
        "true",
        "this cluster has a candidate scheduler; off: the agent reports candidates as unschedulable to their sources",
    )


def _weight(default: float, text: str) -> float:
    return tuned(NOT_NEGATIVE, f"{default:g}", text)


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Scores of targets."""

    placement_strategy: Strategy = flag(
        one_of("least", "most"),
        "least",
        "least: the target with the least allocated capacity has the highest score; most: that with the most",
    )
    score_affinity: float = _weight(Weights.affinity, "weight of preferred node affinity over virtual nodes; 0: none")
    score_taints: float = _weight(Weights.taints, "weight of PreferNoSchedule taints of virtual nodes")
    score_pod_affinity: float = _weight(Weights.pod_affinity, "weight of preferred affinity and anti-affinity to pods")
    score_spread: float = _weight(Weights.spread, "weight of topology spread with ScheduleAnyway")
    score_placement: float = _weight(Weights.placement, "weight of the scores in the decisions of a pod's Placement")
    score_target_weight: float = _weight(
        Weights.target_weight, "weight of the annotation multicluster/weight of Targets"
    )
    score_capacity: float = _weight(
        Weights.capacity, "weight of the allocated fraction of a target (see --placement-strategy)"
    )
    score_images: float = _weight(
        Weights.images, "weight of images that other pods of this cluster already use in the target"
    )
    extra_score: tuple[str, ...] = repeated(
        Form(FORM, _extra_score),
        "score from -100 to 100 in a field of an object, with its weight. The namespace of the object has the"
        " name of the ManagedCluster or of the target",
    )

    @property
    def weights(self) -> Weights:
        """Weights of the scores of a target. Raises InvalidExtraScore."""
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
        """Raise InvalidSetting if two extra scores have the same name."""
        named = [ExtraScore.parse(text).name for text in self.extra_score]
        twice = next((name for name in named if named.count(name) > 1), None)
        if twice is not None:
            raise InvalidSetting(f"--extra-score: {twice} is given twice: keep one of them")


@dataclass(frozen=True, kw_only=True)
class Extender:
    """Bind extender for the candidate scheduler (mode reserve)."""

    extender_address: str = flag(
        or_empty(ADDRESS), "", "HOST:PORT of the bind extender for the candidate scheduler; empty: no extender"
    )
    extender_cert: str = tuned(
        or_empty(FILE), "", "file with the certificate of the extender; empty: the extender listens on loopback only"
    )
    extender_key: str = tuned(or_empty(FILE), "", "file of the certificate's key")
    extender_client_ca: str = tuned(or_empty(FILE), "", "file with the CA of the clients that the extender accepts")
    hold: float = tuned(
        DURATION, "30s", "how long a candidate with a reserved node waits for the permission of its source"
    )

    def check(self) -> None:
        """Raise InvalidSetting unless the extender listens on loopback or authenticates its clients.

        A client of the extender can have candidates bound.
        """
        if not self.extender_address:
            return
        host, port = hostport.split(self.extender_address)
        if not port:
            raise InvalidSetting(f"--extender-address={self.extender_address}: the port must be 1 or more")
        files = (self.extender_cert, self.extender_key, self.extender_client_ca)
        if any(files) and not all(files):
            raise InvalidSetting(
                "--tuning: extender-cert, extender-key and extender-client-ca belong together: give all three or none"
            )
        if not any(files) and not _is_loopback(host):
            raise InvalidSetting(
                f"--extender-address={self.extender_address}: is not a loopback address, and plain HTTP is served on"
                " those only: use 127.0.0.1, or give --tuning extender-cert, extender-key and extender-client-ca"
            )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
