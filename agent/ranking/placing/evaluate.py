"""Evaluation of a Placement: sets, predicates, taints, scores, choice, groups, conditions."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from agent.ranking.placing import celexpr, groups, prioritizers, spread
from agent.ranking.placing.feasible import Feasible, eligible, feasible, members, outside
from agent.ranking.placing.inputs import CelVerdicts, ManagedCluster, PlacementInputs
from agent.ranking.placing.outcome import Decision, Outcome, Satisfied
from agent.ranking.placing.spec import SPREAD, STEADY, PlacementSpec, Policy, parse
from agent.ranking.placing.taints import is_silent

Placement = Mapping[str, Any]

ANY_SCORE = ""
"""Stands for any AddOnPlacementScore, if a CEL expression computes the name when it runs."""


class _Chosen(NamedTuple):
    """The clusters chosen by score."""

    decisions: Sequence[Decision] = ()
    scores: Mapping[str, int] = {}
    again: Sequence[datetime] = ()
    warnings: tuple[str, ...] = ()
    why_not: Callable[[], Mapping[str, str]] = dict
    """Returns why the other feasible clusters are not chosen."""


def evaluate(
    placement: Placement,
    fleet: PlacementInputs,
    *,
    decided: Collection[str],
    elsewhere: Mapping[str, int],
    cel: CelVerdicts,
    now: datetime,
) -> Outcome:
    """Evaluate which clusters a Placement decides for, and why not for the others.

    :param decided: the clusters of its current decisions
    :param elsewhere: number of decisions of all other Placements for each cluster
    :param cel: results of all `cel_expressions` for the `candidates`
    """
    return _evaluate(parse(placement), fleet, frozenset(decided), elsewhere, cel, now)


def evaluate_settled(
    placement: Placement,
    fleet: PlacementInputs,
    *,
    decided: Collection[str],
    elsewhere: Mapping[str, int],
    cel: CelVerdicts,
    now: datetime,
) -> Outcome:
    """As `evaluate`, but Steady counts new decisions at once, so that another evaluation after the write changes
    nothing.
    """
    spec = parse(placement)
    outcome = _evaluate(spec, fleet, frozenset(decided), elsewhere, cel, now)
    steady = any(each.built_in == STEADY for each in spec.policy.prioritizers)
    if outcome.misconfigured or not steady or outcome.decided.keys() == frozenset(decided):
        return outcome
    settled = _evaluate(spec, fleet, frozenset(outcome.decided), elsewhere, cel, now)
    return settled if settled.decided.keys() == outcome.decided.keys() else outcome


def _evaluate(
    spec: PlacementSpec,
    fleet: PlacementInputs,
    decided: frozenset[str],
    elsewhere: Mapping[str, int],
    cel: CelVerdicts,
    now: datetime,
) -> Outcome:
    found = feasible(spec, fleet, decided, cel, now)
    # In the order of the reference implementation.
    flaw = found.flaw or spec.flaws.get("policy", "")
    chosen = _Chosen() if flaw else _choose(spec, found, fleet, decided, elsewhere, now)
    flaw = spec.flaws.get("groups") or flaw

    def why_not() -> dict[str, str]:
        refused = {**outside(spec, fleet), **found.refused, **chosen.why_not()}
        if not flaw:
            return refused
        # Existing decisions stay even if the Placement is misconfigured.
        wrong = f"the Placement is misconfigured: {flaw}"
        refused = {**dict.fromkeys([each.name for each in members(spec, fleet)], wrong), **refused}
        return {name: why for name, why in refused.items() if name not in decided}

    return Outcome(
        groups=() if flaw else groups.divide(spec.groups, chosen.decisions, fleet.clusters),
        satisfied=_satisfied(spec, fleet, len(members(spec, fleet)), len(chosen.decisions)),
        misconfigured=flaw,
        why_not=why_not,
        again=min((*found.again, *chosen.again, *_cel_expiries(spec, fleet, now)), default=None),
        warnings=chosen.warnings,
        scores=chosen.scores,
    )


def cel_expressions(placement: Placement) -> tuple[str, ...]:
    """Return all CEL expressions of a Placement, each once."""
    return tuple(dict.fromkeys(each for predicate in parse(placement).predicates for each in predicate.cel))


def candidates(placement: Placement, fleet: PlacementInputs) -> list[str]:
    """Return the clusters for which CEL has to be evaluated, sorted: members of the sets that a Placement names and
    its namespace is bound to.
    """
    return [cluster.name for cluster in members(parse(placement), fleet)]


def scores_used(placement: Placement) -> frozenset[str]:
    """Return the names of the AddOnPlacementScores that a Placement depends on; ANY_SCORE for all of them.

    Includes the names in CEL expressions.
    """
    spec = parse(placement)
    return frozenset(each.resource for each in spec.policy.prioritizers if each.resource) | _cel_scores(spec)


def _choose(
    spec: PlacementSpec,
    feasible: Feasible,
    fleet: PlacementInputs,
    decided: Collection[str],
    elsewhere: Mapping[str, int],
    now: datetime,
) -> _Chosen:
    """Return the best of the feasible clusters."""
    policy, clusters = spec.policy, feasible.clusters
    scored = prioritizers.score(policy.prioritizers, clusters, fleet, decided, elsewhere, now, feasible.same)
    parts, names = list(scored.parts), [cluster.name for cluster in clusters]
    if feasible.avoided:
        parts.append(prioritizers.preferences(feasible.avoided))
    totals = prioritizers.totals(parts, names)
    for each in policy.prioritizers:
        if each.built_in == SPREAD:
            ranked = _ranked(clusters, totals)
            parts.append(prioritizers.Scores(SPREAD, each.weight, spread.scores(policy.spread, ranked)))
            totals = prioritizers.totals(parts, names)
    ranked = _ranked(clusters, totals)
    ranked.sort(key=lambda each: each.name not in decided or not (spec.keep_decided or is_silent(each)))
    picks = spread.Picks(policy.spread, ranked)
    chosen = frozenset(picks.choose(policy.number))
    listed = sorted(chosen, key=lambda name: (-totals[name], name)) if policy.by_score else sorted(chosen)
    reasons = _reasons(parts, listed)
    decisions = [Decision(name, totals[name], why) for name, why in zip(listed, reasons, strict=True)]
    again = [part.again for part in parts if part.again is not None]
    left = partial(_left, clusters, chosen, policy, picks, totals)
    return _Chosen(decisions, totals, again, scored.warnings, left)


def _ranked(clusters: Sequence[ManagedCluster], totals: Mapping[str, int]) -> list[ManagedCluster]:
    """Sort clusters by total, best first, then by name. `clusters` and `totals` are both sorted by name."""
    places = sorted(range(len(clusters)), key=list(totals.values()).__getitem__, reverse=True)
    return [clusters[place] for place in places]


def _left(
    clusters: Sequence[ManagedCluster],
    chosen: Collection[str],
    policy: Policy,
    picks: spread.Picks,
    totals: Mapping[str, int],
) -> dict[str, str]:
    """Return why the other clusters are not chosen."""
    full = len(chosen) == policy.number
    found = {}
    for cluster in clusters:
        if cluster.name in chosen:
            continue
        best = f"score {totals[cluster.name]}, not among the best {policy.number}"
        found[cluster.name] = best if full else picks.refusal(cluster) or best
    return found


def _reasons(parts: Sequence[prioritizers.Scores], clusters: Sequence[str]) -> list[str]:
    """Return the texts of all prioritizers for each cluster."""
    rows = zip(*(part.told(clusters) for part in parts), strict=True) if parts else ((),) * len(clusters)
    return [", ".join(filter(None, row)) for row in rows]


def _satisfied(spec: PlacementSpec, fleet: PlacementInputs, available: int, decided: int) -> Satisfied:
    """Return the condition with reasons and texts of the reference implementation; the first match wins."""
    bound = fleet.bindings.get(spec.namespace, frozenset()) & fleet.sets.keys()
    if not bound:
        text = "No valid ManagedClusterSetBindings found in placement namespace"
        return Satisfied(False, "NoManagedClusterSetBindings", text)
    sets = eligible(spec, fleet)
    if not sets:
        text = f"None of ManagedClusterSets [{','.join(spec.sets)}] is bound to placement namespace"
        return Satisfied(False, "NoIntersection", text)
    if not available:
        text = f"All ManagedClusterSets [{','.join(sorted(sets))}] have no member ManagedCluster"
        return Satisfied(False, "AllManagedClusterSetsEmpty", text)
    if not decided:
        return Satisfied(False, "NoManagedClusterMatched", "No ManagedCluster matches any of the cluster predicate")
    missing = 0 if spec.policy.number is None else spec.policy.number - decided
    if missing:
        return Satisfied(False, "NotAllDecisionsScheduled", f"{missing} cluster decisions unscheduled")
    return Satisfied(True, "AllDecisionsScheduled", "All cluster decisions scheduled")


def _cel_scores(spec: PlacementSpec) -> frozenset[str]:
    named = [celexpr.scores_named(each) for predicate in spec.predicates for each in predicate.cel]
    return frozenset().union(*(frozenset({ANY_SCORE}) if found is None else found for found in named))


def _cel_expiries(spec: PlacementSpec, fleet: PlacementInputs, now: datetime) -> list[datetime]:
    """Return when the scores expire that CEL expressions use."""
    resources = _cel_scores(spec)
    if not resources:
        return []
    names = [cluster.name for cluster in members(spec, fleet)]
    if ANY_SCORE in resources:
        near = frozenset(names)
        found = [values for (name, _), values in fleet.scores.items() if name in near]
    else:
        found = [fleet.scores.get((name, resource), {}) for resource in resources for name in names]
    return [
        score.until
        for values in found
        for score in values.values()
        if score.until is not None and not score.expired(now)
    ]
