"""Settings of Open Cluster Management's Placements, and of the scores of clusters."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent.base.flag_values import DURATION, DURATION_OR_NONE, SWITCH, Form, one_of
from agent.base.flags import InvalidSetting, flag, repeated, tuned
from agent.model import promscore
from agent.model.promscore import InvalidPrometheusScores, PrometheusScore
from agent.model.quantity import InvalidQuantity, Quantity

PlacementSetting = Literal["auto", "serve", "consume", "off"]
UsageScores = Literal["auto", "true", "false"]

SCORE_MAX = {"cpu": "100", "memory": "1Ti", "gpu": "20", "tpu": "20"}
"""Amount of each resource for the score 100; the defaults of Open Cluster Management's collector of scores."""


def _score_max(text: str) -> str:
    name, equals, amount = text.partition("=")
    if not equals or not name:
        raise ValueError("must be NAME=QUANTITY, such as cpu=100 or memory=1Ti")
    if name not in SCORE_MAX:
        raise ValueError(f"{name} is none of {', '.join(SCORE_MAX)}, of which there are scores")
    try:
        positive = Quantity.of(amount).nano > 0
    except InvalidQuantity as error:
        raise ValueError(f"{error}; write NAME=QUANTITY, such as {name}={SCORE_MAX[name]}") from error
    if not positive:
        raise ValueError(f"must be more than 0, such as {name}={SCORE_MAX[name]}")
    return text


def _prometheus_scores(path: str) -> tuple[PrometheusScore, ...]:
    if not path:
        return ()
    try:
        found = promscore.read(Path(path).read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot be read: {error}") from error
    except InvalidPrometheusScores as error:
        raise ValueError(str(error)) from error
    for score in found:
        if not score.ca_bundle:
            continue
        try:
            ssl.create_default_context(cadata=score.ca_bundle)
        except (ssl.SSLError, ValueError) as error:
            raise ValueError(f"{score.place}.caBundle: is no PEM of certificates ({error}): correct it") from error
    return found


@dataclass(frozen=True, kw_only=True)
class Placements:
    """Placements of Open Cluster Management."""

    placement: PlacementSetting = flag(
        one_of("auto", "serve", "consume", "off"),
        "auto",
        "which controller evaluates Placements: serve (this agent), consume (another controller, and this"
        " agent follows its decisions), off (pods that name a Placement wait); auto: serve if Flotilla's chart"
        " installed the CRDs, else consume",
    )
    placement_grace: float = tuned(
        DURATION_OR_NONE,
        "10s",
        "how long pods stay in a target that is back although their Placement no longer selects it, so that"
        " the Placement can select it again; 0: not at all",
    )
    usage_scores: UsageScores = tuned(
        one_of("auto", "true", "false"),
        "auto",
        "write scores of free and used capacity for ManagedClusters (AddOnPlacementScore resource-usage-score); auto:"
        " if this agent evaluates Placements",
    )
    score_validity: float = tuned(
        DURATION, "15m", "validity of these scores; they are renewed when a third of it is left"
    )
    score_max: tuple[str, ...] = repeated(
        Form("NAME=QUANTITY", _score_max),
        "free amount of a resource for the score 100; defaults: "
        + ", ".join(f"{name}={amount}" for name, amount in SCORE_MAX.items()),
    )
    prometheus_scores: tuple[PrometheusScore, ...] = flag(
        Form("FILE", _prometheus_scores),
        "",
        "YAML file of scores from Prometheus, a list of: name, resource, url, query, clusterLabel, min, max,"
        " interval, tokenSecret, caBundle",
    )

    hub: bool = flag(
        SWITCH,
        "false",
        "let clusters register with this one as their hub, as agents of Open Cluster Management do; needs a placement"
        " of auto or serve",
    )

    @property
    def score_maxima(self) -> Mapping[str, int]:
        """Amount of each resource for the score 100, in 10^-9 units."""
        given = dict(text.split("=", 1) for text in self.score_max)
        return {name: Quantity.of(amount).nano for name, amount in (SCORE_MAX | given).items()}

    def check(self) -> None:
        """Raise InvalidSetting if a maximum is given twice, or scores or a hub are requested without Placements."""
        if self.hub and self.placement in ("off", "consume"):
            raise InvalidSetting("--hub needs --placement=auto or serve: otherwise another controller has the clusters")
        named = [text.partition("=")[0] for text in self.score_max]
        twice = next((name for name in named if named.count(name) > 1), None)
        if twice is not None:
            raise InvalidSetting(f"--score-max: {twice} is given twice: keep one of them")
        if self.placement == "off":
            given = {
                "--tuning=usage-scores=true": self.usage_scores == "true",
                "--prometheus-scores": self.prometheus_scores,
            }
            for flag_given in (name for name, is_given in given.items() if is_given):
                raise InvalidSetting(
                    f"{flag_given} needs --placement=auto, serve or consume: with off nobody looks at scores"
                )
