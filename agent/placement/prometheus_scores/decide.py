"""Read Prometheus' answers, and compute the scores of a cluster from them. Pure."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import msgspec

from agent.kube.errors import UNDECODABLE, one_line
from agent.model.addonscore import Statement
from agent.model.promscore import PrometheusScore
from agent.ranking.placing.usage_scores import within

INTERVALS = 3
"""Number of query intervals for which an answer counts."""
_SHOWN = 200


class BadAnswer(Exception):
    """An answer without usable scores; the message is the reason in one line."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message, _SHOWN))


class _Series(msgspec.Struct):
    metric: dict[str, str] = {}
    value: tuple[float, str] | None = None


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Answer(msgspec.Struct, rename="camel"):
    status: str = ""
    data: _Data = msgspec.field(default_factory=_Data)
    error_type: str = ""
    error: str = ""


_answer_decoder = msgspec.json.Decoder(_Answer)
_series_decoder = msgspec.json.Decoder(list[_Series])


def read_answer(body: bytes, http_status: int, score: PrometheusScore) -> dict[str, int]:
    """Return scores by cluster. A cluster whose value is not a number has no score.

    :raises BadAnswer: if the answer has no usable scores
    """
    try:
        answer = _answer_decoder.decode(body)
        if answer.status == "error":
            raise BadAnswer(f"Prometheus says {answer.error_type}: {answer.error}")
        if http_status != 200 or answer.status != "success":
            raise BadAnswer(f"HTTP status {http_status}: is {score.url} a Prometheus?")
        if answer.data.result_type != "vector":
            raise BadAnswer(
                f"the query gives a {answer.data.result_type or 'thing'} instead of a vector with a series per cluster"
            )
        series = _series_decoder.decode(answer.data.result)
    except UNDECODABLE:
        raise BadAnswer(f"HTTP status {http_status}, and not an answer of Prometheus: {_remedy(http_status)}") from None
    return _by_cluster(series, score)


def _remedy(http_status: int) -> str:
    return "renew the token" if http_status in (401, 403) else "correct the url"


def _by_cluster(series: Sequence[_Series], score: PrometheusScore) -> dict[str, int]:
    named = [(each.metric.get(score.cluster_label), each) for each in series]
    if series and not any(name for name, _ in named):
        raise BadAnswer(f"no series has the label {score.cluster_label}: aggregate by it, or correct clusterLabel")
    twice = next((name for name, count in Counter(name for name, _ in named if name).items() if count > 1), None)
    if twice is not None:
        raise BadAnswer(f"several series have {score.cluster_label}={twice}: aggregate by ({score.cluster_label})")
    values = {name: _score(each.value[1], score) for name, each in named if name and each.value is not None}
    return {name: value for name, value in values.items() if value is not None}


def _score(text: str, score: PrometheusScore) -> int | None:
    try:
        number = float(text)
    except ValueError:
        return None
    if math.isnan(number):
        return None
    # Infinite values are beyond any bounds.
    number = max(score.lowest, min(score.highest, number))
    # Exact decimal fractions as written by the user: 0.1 is one tenth.
    exact, lowest, highest = (Fraction(repr(each)) for each in (number, score.lowest, score.highest))
    return within(200 * (exact - lowest) / (highest - lowest) - 100)


@dataclass(frozen=True)
class QueryResult:
    """The last result of one query; times are of the monotonic clock."""

    score: PrometheusScore
    at: float
    """Time of the last answer; before the first answer, the time of the first query."""
    values: Mapping[str, int] | None = None
    """Scores of the last answer by cluster; None before the first."""
    error: str = ""
    """Reason of the last failure; empty if the last query succeeded."""

    def answered(self, values: Mapping[str, int], now: float) -> "QueryResult":
        """Return the result after an answer."""
        return QueryResult(self.score, now, values)

    def failed(self, error: str) -> "QueryResult":
        """Return the result after a failure, which keeps the last values."""
        return replace(self, error=error)


def decide(cluster: str, asked: Sequence[QueryResult], told: Mapping[str, int], now: float) -> Statement | None:
    """Return the scores of a cluster by these queries; None until each has been run once.

    A value counts for three intervals after its answer. Scores from before this process started count for three
    intervals after its start.

    :param told: published scores by name
    """
    if any(each.values is None and not each.error for each in asked):
        return None
    counting = [each for each in asked if now < each.at + INTERVALS * each.score.interval]
    known = {each.score.name: _value(each, cluster, told) for each in counting}
    scores = {name: value for name, value in known.items() if value is not None}
    failed = [f"{each.score.name}: {each.error}" for each in asked if each.error]
    silent = [each.score.name for each in counting if not each.error and each.score.name not in scores]
    statement = Statement(
        scores,
        INTERVALS * min(each.score.interval for each in asked),
        age=max((_age(each, now) for each in counting if each.score.name in scores), default=0.0),
        message="as Prometheus says",
        made=True,
    )
    if failed:
        return replace(statement, status="False", reason="QueryFailed", message="; ".join(failed))
    if silent:
        message = f"there is no series of this cluster for {', '.join(silent)}"
        return replace(statement, status="False", reason="NoSeries", message=message)
    return statement


def _value(asked: QueryResult, cluster: str, told: Mapping[str, int]) -> int | None:
    return told.get(asked.score.name) if asked.values is None else asked.values.get(cluster)


def _age(asked: QueryResult, now: float) -> float:
    """Return the seconds since the answer; infinite for scores from before this process, as these are not renewed."""
    return math.inf if asked.values is None else now - asked.at
