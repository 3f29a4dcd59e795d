"""Verdicts of CEL expressions about clusters, computed by a worker and cached until a cluster or its scores change.

Namespaces get equal shares of the worker's time and of the cache: expressions that fail slow only their own namespace.
"""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from agent.ranking.placing import celexpr
from agent.ranking.placing.inputs import CelVerdicts, Score
from agent.runtime.worker import Worker, WorkerFailed

_SERVES = f"{celexpr.__name__}:{celexpr.answer.__name__}"
_EXPRESSIONS = 512
_VERDICTS = 100_000
"""Maximum number of cached verdicts, about 20 MB; the least recently used expressions are evicted."""
_BATCH = 250
"""Maximum number of clusters in one request; the worker's time limit fits that many."""
_RETRY = timedelta(minutes=1)
"""Pause before retrying an expression that exceeded the worker's limits; doubles with each failure."""
_LONGEST_RETRY = timedelta(hours=1)
_MOST_FAILURES = 6
"""Maximum number of counted failures, at which the pause has its maximum."""

Scores = Mapping[tuple[str, str], Mapping[str, Score]]
"""Scores in the form of `PlacementInputs.scores`."""
_Valid = tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
"""Unexpired scores of one cluster by AddOnPlacementScore."""
_Version = tuple[str, str, _Valid]
"""UID and resource version of a cluster, and its scores."""


class Manifest(Protocol):
    """A ManagedCluster from the store of an informer."""

    @property
    def raw(self) -> bytes:
        """The object as JSON."""
        ...

    @property
    def uid(self) -> str:
        """UID; empty if the object is not from an API server, and its verdicts are not cached."""
        ...

    @property
    def version(self) -> str:
        """Its resource version."""
        ...


@dataclass
class _Known:
    """Cached results of one expression."""

    error: str = ""
    retry: datetime | None = None
    """Time of the next try after an error; None for no retry."""
    failures: int = 0
    """Number of times in a row that it exceeded the worker's limits."""
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held during evaluation: other Placements with the same expression wait for the result."""
    verdicts: dict[str, tuple[_Version, bool]] = field(default_factory=dict)
    """By cluster: the version of its inputs, and the result of the expression for it."""


class CelEvaluator:
    """Evaluates CEL expressions over clusters in a separate process, which starts with the first expression."""

    def __init__(self) -> None:
        self._worker = Worker(_SERVES)
        self._known: dict[str, OrderedDict[str, _Known]] = {}
        """Cached results by namespace and expression."""

    async def close(self) -> None:
        """End the process."""
        await self._worker.close()

    async def verdicts(
        self,
        expressions: Collection[str],
        clusters: Mapping[str, Manifest],
        scores: Scores,
        now: datetime,
        *,
        namespace: str = "",
        at_once: bool = False,
    ) -> CelVerdicts:
        """Return the clusters that match each expression, and the errors of unusable expressions.

        :param namespace: namespace of the Placement with these expressions
        :param at_once: retry failed expressions before their pause is over
        """
        errors: dict[str, str] = {}
        matches: set[tuple[str, str]] = set()
        retries = []
        for expression in expressions if clusters else ():
            known = self._recall(namespace, expression)
            async with known.asking:
                if known.retry and (at_once or known.retry <= now):
                    known.error, known.retry = "", None
                true_of = set() if known.error else await self._ask(namespace, expression, known, clusters, scores, now)
                if known.error:
                    errors[expression] = known.error
                    retries += [known.retry] if known.retry else []
            matches |= {(expression, name) for name in true_of}
        self._forget()
        return CelVerdicts(errors=errors, matches=frozenset(matches), again=min(retries, default=None))

    def _recall(self, namespace: str, expression: str) -> _Known:
        """Return the cached results of an expression, and mark it as the most recently used."""
        mine = self._known.setdefault(namespace, OrderedDict())
        known = mine.pop(expression, None) or _Known(error=celexpr.missing())
        mine[expression] = known
        return known

    def _forget(self) -> None:
        """Evict from the namespace with the largest part of the cache until the cache is within its bounds."""
        verdicts = {name: sum(len(known.verdicts) for known in mine.values()) for name, mine in self._known.items()}
        count = sum(map(len, self._known.values()))
        while count > 1 and (count > _EXPRESSIONS or sum(verdicts.values()) > _VERDICTS):
            by = verdicts if count <= _EXPRESSIONS else {name: len(mine) for name, mine in self._known.items()}
            most = max(by, key=lambda name: by[name])
            _, forgotten = self._known[most].popitem(last=False)
            verdicts[most] -= len(forgotten.verdicts)
            count -= 1
            if not self._known[most]:
                del self._known[most], verdicts[most]

    async def _ask(
        self,
        namespace: str,
        expression: str,
        known: _Known,
        clusters: Mapping[str, Manifest],
        scores: Scores,
        now: datetime,
    ) -> set[str]:
        """Return the clusters that match an expression; store an error in `known`."""
        valid = _valid(celexpr.scores_named(expression), clusters, scores, now)
        versions = {name: (each.uid, each.version, valid.get(name, ())) for name, each in clusters.items()}
        verdicts = {
            name: known.verdicts[name][1]
            for name, version in versions.items()
            if version[0] and name in known.verdicts and known.verdicts[name][0] == version
        }
        missing = [name for name in versions if name not in verdicts]
        try:
            for batch in (missing[at : at + _BATCH] for at in range(0, len(missing), _BATCH)):
                verdicts |= await self._answers(namespace, expression, {name: clusters[name] for name in batch}, valid)
            known.failures = 0
        except celexpr.InvalidExpression as error:
            known.error = str(error)
        except WorkerFailed as error:
            known.error = f"evaluation failed: {error}"
            known.retry = now + min(_RETRY * 2**known.failures, _LONGEST_RETRY)
            known.failures = min(known.failures + 1, _MOST_FAILURES)
        kept = known.verdicts if len(known.verdicts) <= 2 * len(clusters) + _BATCH else {}
        known.verdicts = kept | {name: (versions[name], true) for name, true in verdicts.items()}
        return {name for name, true in verdicts.items() if true and not known.error}

    async def _answers(
        self, namespace: str, expression: str, clusters: Mapping[str, Manifest], scores: Mapping[str, _Valid]
    ) -> dict[str, bool]:
        question = celexpr.Question(
            expression,
            [each.raw for each in clusters.values()],
            [dict(scores.get(name, ())) for name in clusters] if scores else [],
        )
        reply = await self._worker.ask(msgspec.msgpack.encode(question), namespace)
        found = msgspec.msgpack.decode(reply, type=celexpr.Answer)
        if found.error:
            raise celexpr.InvalidExpression(found.error)
        return dict(zip(clusters, found.matches, strict=True))


def _valid(
    named: frozenset[str] | None, clusters: Mapping[str, Manifest], scores: Scores, now: datetime
) -> Mapping[str, _Valid]:
    """Return the scores of each cluster that an expression may use; an expired score counts as missing.

    :param named: names of AddOnPlacementScores that the expression uses; None if it may use any
    """
    found: defaultdict[str, _Valid] = defaultdict(tuple)
    if named is None:
        asked = [key for key in scores if key[0] in clusters]
    else:
        asked = [(name, resource) for name in clusters for resource in sorted(named)]
    for name, resource in asked:
        values = scores.get((name, resource))
        if values is None:
            continue
        fresh = tuple((each, score.value) for each, score in values.items() if not score.expired(now))
        if fresh or not values:
            found[name] = (*found[name], (resource, fresh))
    return found
