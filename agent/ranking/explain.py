"""Explanations of why a pod waits, as one line and as a table."""

import re
from collections.abc import Mapping

import msgspec

from agent.ranking.rank import Ranking
from agent.ranking.rejection import Rejection
from agent.ranking.snapshot import PodInfo, TargetInfo

NO_TARGETS = "0/0 targets are available: create a Target in this namespace, or a ClusterTarget"

CLAIMED = "not as long as another target may run the pod"

_TOGETHER = 3
"""Maximum number of targets with the same reason that are listed one by one."""
_REASON_LIMIT = 240
_LIMIT = 1000
"""Maximum characters; the note of an Event may have 1,024 bytes."""
_LIVE = re.compile(r" \((?:largest free [^()]*|[^() ]+ of [^()]*)\)")
_FIGURE = re.compile(r"\d[\d.]*[A-Za-z]*")


def explain(ranking: Ranking, tried: Mapping[str, str], claim: Mapping[str, str]) -> str:
    """Return one line on why the pod waits: `0/3 targets are available: eu: ..., us: ...`.

    Many targets with the same reason share one entry, and a long list is cut.

    :param tried: by virtual node, why targets that pass the filters could not take the pod
    :param claim: by virtual node, the state of the target that the pod is claimed for; it replaces the reason of a
    filter and excludes other targets
    """
    known = {**tried, **claim}
    reasons = [(target.title, claim.get(target.node_name, rejection.message)) for target, rejection in ranking.rejected]
    for target in ranking.order:
        reason = known.get(target.node_name, CLAIMED if claim else "")
        if reason:
            reasons.append((target.title, reason))
    count = len(ranking.rejected) + len(ranking.order)
    if not count:
        return NO_TARGETS
    return f"0/{count} targets are available: {listed(reasons)}"


def without_figures(text: str) -> str:
    """Remove all numbers from a reason, for comparisons: counts and measurements change all the time."""
    return _FIGURE.sub("", text)


def without_live_figures(text: str) -> str:
    """Return a reason without figures of free or used capacity, for texts that are written at each change."""
    return _LIVE.sub("", text)


def listed(reasons: list[tuple[str, str]]) -> str:
    """Return a text of bounded length with the reasons of targets; targets with the same reason share one entry."""
    by_reason: dict[str, list[str]] = {}
    for title, reason in reasons:
        by_reason.setdefault(_cut(reason, _REASON_LIMIT), []).append(title)
    single = [
        f"{title}: {reason}" for reason, titles in by_reason.items() if len(titles) <= _TOGETHER for title in titles
    ]
    many = [(len(titles), reason) for reason, titles in by_reason.items() if len(titles) > _TOGETHER]
    parts = sorted(single) + [f"{number} targets: {reason}" for number, reason in sorted(many, key=_most_first)]
    text = ", ".join(parts)
    if len(text) <= _LIMIT:
        return text
    # Entries for many targets are the most informative.
    parts = parts[len(single) :] + parts[: len(single)]
    kept: list[str] = []
    length = 0
    for part in parts:
        length += len(part) + 2
        if length > _LIMIT and kept:
            break
        kept.append(part)
    return f"{', '.join(kept)}, and {len(parts) - len(kept)} more"


def _most_first(item: tuple[int, str]) -> tuple[int, str]:
    return -item[0], item[1]


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3].rstrip() + "..."


class Row(msgspec.Struct, frozen=True):
    """One target in the table of `flotilla explain pod`."""

    target: str
    node_name: str
    rejection: Rejection | None
    """Why the pod may not be scheduled in the target; None if it may."""
    scores: Mapping[str, float]
    """Each 0 to 100; without scores that do not apply to this pod."""
    total: float | None
    """Their weighted sum; None without scores."""
    attempt: str
    """Why the target could not take the pod when it was tried; empty if it was not tried."""


def table(ranking: Ranking, pod: PodInfo) -> list[Row]:
    """Return the targets in the order of attempts, then the rejected ones by name."""
    rows = [_row(target, None, ranking, pod) for target in ranking.order]
    rejected = sorted(ranking.rejected, key=lambda item: (item[0].title, item[0].node_name))
    return rows + [_row(target, rejection, ranking, pod) for target, rejection in rejected]


def _row(target: TargetInfo, rejection: Rejection | None, ranking: Ranking, pod: PodInfo) -> Row:
    scored = ranking.scored(pod, target)
    return Row(
        target=target.title,
        node_name=target.node_name,
        rejection=rejection,
        scores=scored.scores if scored else {},
        total=scored.total if scored else None,
        attempt=pod.attempts.get(target.node_name, ""),
    )
