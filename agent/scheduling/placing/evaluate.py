"""Evaluate a Placement: sets, predicates, taints, scores, the choice among those that will do, groups, conditions."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from agent.scheduling.placing import celexpr, groups, predicates, prioritizers, spread, taints
from agent.scheduling.placing.inputs import CelVerdicts, Fleet, ManagedCluster
from agent.scheduling.placing.outcome import Decision, Outcome, Satisfied
from agent.scheduling.placing.spec import SPREAD, STEADY, PlacementSpec, Policy, parse

Placement = Mapping[str, Any]

ANY_SCORE = ""
"""Instead of the name of an AddOnPlacementScore, for CEL expressions that make it up while they run."""


class _Feasible(NamedTuple):
    """What is left after the filters."""

    clusters: Sequence[ManagedCluster]
    avoided: Mapping[str, int]
    """How many PreferNoSelect taints of a cluster are not tolerated."""
    refused: Mapping[str, str]
    """Why the others are not."""
    again: Sequence[datetime] = ()
    flaw: str = ""


class _Chosen(NamedTuple):
    """What the scores have made of those."""

    decisions: Sequence[Decision] = ()
    scores: Mapping[str, int] = {}
    again: Sequence[datetime] = ()
    warnings: tuple[str, ...] = ()
    why_not: Callable[[], Mapping[str, str]] = dict
    """Why not those that are left."""


def evaluate(
    placement: Placement,
    fleet: Fleet,
    *,
    decided: Collection[str],
    elsewhere: Mapping[str, int],
    cel: CelVerdicts,
    now: datetime,
) -> Outcome:
    """Which clusters a Placement decides, and why not the others.

    :param decided: the clusters of its decisions as they are
    :param elsewhere: how many decisions of all other Placements name each cluster
    :param cel: of all `cel_expressions` and `candidates`
    """
    spec, decided = parse(placement), frozenset(decided)
    names = _candidates(spec, fleet)
    feasible = _filter(spec, [fleet.clusters[name] for name in names], decided, cel, now)
    # In the order in which the reference finds them.
    flaw = feasible.flaw or spec.flaws.get("policy", "")
    chosen = _Chosen() if flaw else _choose(spec, feasible, fleet, decided, elsewhere, now)
    flaw = spec.flaws.get("groups") or flaw

    def why_not() -> dict[str, str]:
        found = {**_outside(spec, fleet, names), **feasible.refused, **chosen.why_not()}
        if not flaw:
            return found
        # What is decided stays, whatever would become of it.
        found = {**dict.fromkeys(names, f"the Placement is misconfigured: {flaw}"), **found}
        return {name: why for name, why in found.items() if name not in decided}

    return Outcome(
        groups=() if flaw else groups.divide(spec.groups, chosen.decisions, fleet.clusters),
        satisfied=_satisfied(spec, fleet, len(names), len(chosen.decisions)),
        misconfigured=flaw,
        why_not=why_not,
        again=min((*feasible.again, *chosen.again, *_cel_expiries(spec, names, fleet, now)), default=None),
        warnings=chosen.warnings,
        scores=chosen.scores,
    )


def evaluate_settled(
    placement: Placement,
    fleet: Fleet,
    *,
    decided: Collection[str],
    elsewhere: Mapping[str, int],
    cel: CelVerdicts,
    now: datetime,
) -> Outcome:
    """As `evaluate`, but Steady counts new decisions at once: once they are written, nothing else comes of it."""
    evaluated = partial(evaluate, placement, fleet, elsewhere=elsewhere, cel=cel, now=now)
    outcome = evaluated(decided=decided)
    steady = any(each.built_in == STEADY for each in parse(placement).policy.prioritizers)
    if outcome.misconfigured or not steady or outcome.decided.keys() == frozenset(decided):
        return outcome
    settled = evaluated(decided=outcome.decided)
    return settled if settled.decided.keys() == outcome.decided.keys() else outcome


def cel_expressions(placement: Placement) -> tuple[str, ...]:
    """All CEL expressions of a Placement, each once."""
    return tuple(dict.fromkeys(each for predicate in parse(placement).predicates for each in predicate.cel))


def candidates(placement: Placement, fleet: Fleet) -> list[str]:
    """The clusters that CEL is to be asked about, sorted: members of the sets that a Placement names and its namespace
    is bound to.
    """
    return _candidates(parse(placement), fleet)


def scores_used(placement: Placement) -> frozenset[str]:
    """Names of the AddOnPlacementScores whose changes matter to a Placement, ANY_SCORE for all of them.

    Those that CEL names are included.
    """
    spec = parse(placement)
    return frozenset(each.resource for each in spec.policy.prioritizers if each.resource) | _cel_scores(spec)


def _eligible(spec: PlacementSpec, fleet: Fleet) -> frozenset[str]:
    bound = fleet.bindings.get(spec.namespace, frozenset()) & fleet.sets.keys()
    return bound & frozenset(spec.sets) if spec.sets else bound


def _candidates(spec: PlacementSpec, fleet: Fleet) -> list[str]:
    eligible = _eligible(spec, fleet)
    if not eligible:
        return []
    return sorted(
        name
        for name, sets in fleet.sets_of.items()
        if not sets.isdisjoint(eligible) and not fleet.clusters[name].deleting
    )


def _outside(spec: PlacementSpec, fleet: Fleet, names: Sequence[str]) -> dict[str, str]:
    """Clusters that are no candidates, and why."""
    inside = frozenset(names)
    where = f"in no set{' of clusterSets' if spec.sets else ''} that is bound to namespace {spec.namespace}"
    return {
        name: "it is being deleted"
        if cluster.deleting
        else f"{where} (sets: {', '.join(sorted(fleet.sets_of[name])) or 'none'})"
        for name, cluster in fleet.clusters.items()
        if name not in inside
    }


def _filter(
    spec: PlacementSpec,
    clusters: Sequence[ManagedCluster],
    decided: Collection[str],
    cel: CelVerdicts,
    now: datetime,
) -> _Feasible:
    """Those that predicates, tolerations and hard spread constraints let through.

    As in the reference, a part is checked only where there are clusters to use it for.
    """
    flaw = (spec.flaws.get("predicates") or _cel_flaw(spec, cel)) if clusters else ""
    if flaw:
        return _Feasible((), {}, {}, flaw=flaw)
    refused, matching = {}, []
    for cluster in clusters:
        why = predicates.refusal(spec.predicates, cluster, cel) if spec.predicates else ""
        if why:
            refused[cluster.name] = why
        else:
            matching.append(cluster)
    if matching and "tolerations" in spec.flaws:
        return _Feasible((), {}, refused, flaw=spec.flaws["tolerations"])
    found, avoided, again = [], {}, []
    for cluster in matching:
        verdict = taints.judge(cluster, spec.tolerations, cluster.name in decided, now)
        why = verdict.refusal or spread.refusal(spec.policy.spread, cluster)
        if verdict.until is not taints.FOREVER:
            again.append(verdict.until)
        if why:
            refused[cluster.name] = why
            continue
        found.append(cluster)
        if verdict.avoided:
            avoided[cluster.name] = verdict.avoided
    return _Feasible(found, avoided, refused, again)


def _choose(
    spec: PlacementSpec,
    feasible: _Feasible,
    fleet: Fleet,
    decided: Collection[str],
    elsewhere: Mapping[str, int],
    now: datetime,
) -> _Chosen:
    """The best of the feasible clusters."""
    policy, clusters = spec.policy, feasible.clusters
    scored = prioritizers.score(policy.prioritizers, clusters, fleet, decided, elsewhere, now)
    parts, names = list(scored.parts), [cluster.name for cluster in clusters]
    if feasible.avoided:
        parts.append(prioritizers.preferences(feasible.avoided))
    totals = prioritizers.totals(parts, names)
    for each in policy.prioritizers:
        if each.built_in == SPREAD:
            ranked = sorted(clusters, key=lambda cluster: (-totals[cluster.name], cluster.name))
            parts.append(prioritizers.Scores(SPREAD, each.weight, spread.scores(policy.spread, ranked)))
            totals = prioritizers.totals(parts, names)
    kept = decided if spec.keep_decided else ()
    ranked = sorted(clusters, key=lambda cluster: (cluster.name not in kept, -totals[cluster.name], cluster.name))
    picks = spread.Picks(policy.spread, ranked)
    chosen = frozenset(picks.choose(policy.number))
    listed = sorted(chosen, key=lambda name: (-totals[name], name)) if policy.by_score else sorted(chosen)
    reasons = _reasons(parts, listed)
    decisions = [Decision(name, totals[name], why) for name, why in zip(listed, reasons, strict=True)]
    again = [part.again for part in parts if part.again is not None]
    left = [cluster for cluster in clusters if cluster.name not in chosen]
    return _Chosen(decisions, totals, again, scored.warnings, partial(_left, left, policy, picks, totals))


def _left(
    clusters: Sequence[ManagedCluster], policy: Policy, picks: spread.Picks, totals: Mapping[str, int]
) -> dict[str, str]:
    """Why these are not chosen."""
    full = len(totals) - len(clusters) == policy.number
    found = {}
    for cluster in clusters:
        best = f"score {totals[cluster.name]}, not among the best {policy.number}"
        found[cluster.name] = best if full else picks.refusal(cluster) or best
    return found


def _reasons(parts: Sequence[prioritizers.Scores], clusters: Sequence[str]) -> list[str]:
    """What all prioritizers say of each cluster."""
    rows = zip(*(part.told(clusters) for part in parts), strict=True) if parts else ((),) * len(clusters)
    return [", ".join(filter(None, row)) for row in rows]


def _satisfied(spec: PlacementSpec, fleet: Fleet, available: int, decided: int) -> Satisfied:
    """The condition, with reasons and texts of the reference; the first that fits."""
    bound = fleet.bindings.get(spec.namespace, frozenset()) & fleet.sets.keys()
    if not bound:
        text = "No valid ManagedClusterSetBindings found in placement namespace"
        return Satisfied(False, "NoManagedClusterSetBindings", text)
    eligible = _eligible(spec, fleet)
    if not eligible:
        text = f"None of ManagedClusterSets [{','.join(spec.sets)}] is bound to placement namespace"
        return Satisfied(False, "NoIntersection", text)
    if not available:
        text = f"All ManagedClusterSets [{','.join(sorted(eligible))}] have no member ManagedCluster"
        return Satisfied(False, "AllManagedClusterSetsEmpty", text)
    if not decided:
        return Satisfied(False, "NoManagedClusterMatched", "No ManagedCluster matches any of the cluster predicate")
    missing = 0 if spec.policy.number is None else spec.policy.number - decided
    if missing:
        return Satisfied(False, "NotAllDecisionsScheduled", f"{missing} cluster decisions unscheduled")
    return Satisfied(True, "AllDecisionsScheduled", "All cluster decisions scheduled")


def _cel_flaw(spec: PlacementSpec, cel: CelVerdicts) -> str:
    for predicate in spec.predicates:
        for expression in predicate.cel:
            if expression in cel.errors:
                return f"Predicate:{cel.errors[expression]}"
    return ""


def _cel_scores(spec: PlacementSpec) -> frozenset[str]:
    named = [celexpr.scores_named(each) for predicate in spec.predicates for each in predicate.cel]
    return frozenset().union(*(frozenset({ANY_SCORE}) if found is None else found for found in named))


def _cel_expiries(spec: PlacementSpec, names: Sequence[str], fleet: Fleet, now: datetime) -> list[datetime]:
    """When scores expire that CEL expressions look at."""
    resources = _cel_scores(spec)
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
