"""Conclusions from the facts, by the agent's own code: ranking, next step, and cause of a wait. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from agent.api import names
from agent.api.conditions import find_condition
from agent.cli.explaining.facts import Facts, Seen, status_of
from agent.cli.explaining.lines import Bound, Explanation, Line, Tried
from agent.cli.explaining.rankings import chaperon_of, ranking_of
from agent.cli.moving.lines import move_told, replaces_told
from agent.kube.store import Object
from agent.model import podstate
from agent.model.podstate import ENDED, CandidateStatus, observe
from agent.ranking.explain import Row, explain, table
from agent.ranking.placed import misplaced
from agent.ranking.rank import Ranking
from agent.ranking.snapshot import TargetInfo
from agent.scheduler.failed_targets import failed_targets_of
from agent.scheduler.modes import group_name, group_of, mode_of
from agent.scheduler.ranked import decide as ranked
from agent.scheduler.ranked.neglected_chaperons import reason_by_age
from agent.settings import Settings


def explanation_of(facts: Facts, settings: Settings, now: datetime) -> Explanation:
    """Return the complete explanation of a pod. Raises Unexplained."""
    pod, proxy = facts.pod, facts.pod.decode()
    titles, claim = {seen.info.node_name: seen.info.title for seen in facts.targets}, podstate.claimed_node(pod)
    attempts = failed_targets_of(proxy)
    scheduled = find_condition(status_of(pod).get("conditions"), "PodScheduled") or {}
    common: dict[str, Any] = {
        "namespace": pod.namespace,
        "name": pod.name,
        "mode": mode_of(pod, facts.namespace, settings.scheduling),
        "phase": pod.phase,
        "group": _group(facts),
        "claim": titles.get(claim, claim),
        "follows": _follows(facts),
        "chosen": _chosen(facts),
        "claims": _claims(facts),
        "moves": move_told(pod, facts.proxies, titles),
        "replaces": replaces_told(pod, facts.proxies, titles),
        "attempts": tuple(
            Tried(titles.get(node, node), attempt.reason, attempt.at, attempt.count)
            for node, attempt in sorted(attempts.items(), key=lambda item: item[1].at)
        ),
        "notes": (*facts.notes, *_misspelt(facts.namespace)),
    }
    if pod.phase in ENDED:
        return Explanation(**common, bound=_bound(facts, titles) if pod.node_name else None)
    pod_info, ranking = ranking_of(facts, settings, now)
    candidates = {seen.info.node_name: _candidate(seen, pod) for seen in facts.targets}
    common["targets"] = tuple(_line(row, candidates) for row in table(ranking, pod_info))
    common["weights"] = {name: settings.weights.of(name) for line in common["targets"] for name in line.scores}
    if pod.node_name:
        return Explanation(**common, bound=_bound(facts, titles))
    told = scheduled.get("message") or ""
    return Explanation(**common, told=told, waits_for=_waits_for(facts, proxy, ranking, settings, now))


def _follows(facts: Facts) -> str:
    if facts.following is None:
        return ""
    return facts.following.told(_home(facts))


def _home(facts: Facts) -> TargetInfo | None:
    return next((seen.info for seen in facts.targets if seen.info.node_name == facts.pod.node_name), None)


def _claims(facts: Facts) -> str:
    if facts.claims is None:
        return ""
    here = _home(facts)
    why = facts.claims.misplaced(here) if here is not None else ""
    return (
        f"{facts.claims.source}; it stays in {here.title}, though {why}"
        if here is not None and why
        else facts.claims.source
    )


def _chosen(facts: Facts) -> str:
    if facts.choice is None:
        return ""
    here = _home(facts)
    if here is None or not facts.choice.misplaced(here):
        return facts.choice.source
    return f"{facts.choice.source}; {here.title} is none of them"


def _misplaced(facts: Facts, target: TargetInfo) -> str:
    by_choice = facts.choice.misplaced(target) if facts.choice is not None else ""
    by_choice = by_choice or (facts.claims.misplaced(target) if facts.claims is not None else "")
    return by_choice or (misplaced(facts.following.placed, target) if facts.following is not None else "")


def _misspelt(namespace: Object | None) -> Iterator[str]:
    """Yield invalid annotations that no webhook checks."""
    text = names.annotation(namespace.annotations, names.SCHEDULING) if namespace is not None else None
    if namespace is not None and text not in (None, *names.SCHEDULING_MODES):
        modes = " or ".join(names.SCHEDULING_MODES)
        key = names.SHORT_PREFIX + names.SCHEDULING
        yield f"annotation {key} of namespace {namespace.name} is {text!r} and counts for nothing: write {modes}"


def _group(facts: Facts) -> str:
    key = group_of(facts.pod)
    if key is None:
        return ""
    members = [pod for pod in facts.proxies if group_of(pod) == key and not pod.deleting]
    live = sum(pod.phase not in ENDED and not pod.gated for pod in members)
    gated = sum(pod.gated for pod in members)
    size = names.annotation(facts.pod.annotations, names.POD_GROUP_SIZE) or "?"
    return f"{group_name(key)}: {live} of {size} pods are there" + (
        f", and {gated} with scheduling gates" if gated else ""
    )


def _bound(facts: Facts, titles: Mapping[str, str]) -> Bound:
    node = facts.pod.node_name
    for seen in facts.targets:
        if seen.info.node_name == node:
            delegate = seen.delegate
            if delegate is None:
                return Bound(titles[node], node)
            return Bound(titles[node], node, delegate.name, delegate.node_name, delegate.phase)
    return Bound("", node)


def _line(row: Row, candidates: Mapping[str, str]) -> Line:
    verdict = row.rejection
    return Line(
        target=row.target,
        verdict=verdict.message if verdict else "",
        reason=verdict.reason if verdict else "",
        scores={name: round(score, 3) for name, score in row.scores.items()},
        total=round(row.total, 3) if row.total is not None else None,
        candidate=candidates.get(row.node_name, ""),
    )


def _sighting(seen: Seen, pod: Object) -> CandidateStatus | None:
    chaperon = chaperon_of(seen, pod)
    return observe(chaperon.decode(), seen.info.node_name, ready=True, now=0.0) if chaperon is not None else None


def _candidate(seen: Seen, pod: Object) -> str:
    found = chaperon_of(seen, pod)
    if found is None:
        return "" if seen.chaperons is not None else "?"
    sighting = observe(manifest := found.decode(), seen.info.node_name, ready=True, now=0.0)
    state = "going" if sighting.going else "gated" if ranked.is_gated(manifest) else sighting.state
    return f"{state}: {sighting.reason}" if sighting.reason else state


def _waits_for(facts: Facts, proxy: Mapping[str, Any], ranking: Ranking, settings: Settings, now: datetime) -> str:
    pod = facts.pod
    if pod.deleting:
        return "its deletion, which is under way"
    if pod.gated:
        gates = [gate["name"] for gate in proxy["spec"].get("schedulingGates") or ()]
        return f"its scheduling gates to be removed: {', '.join(gates)}"
    if mode_of(pod, facts.namespace, settings.scheduling) == "reserve":
        return _waits_in_reserve(facts, ranking)
    return _waits_in_ranked(facts, ranking, settings, now)


def _waits_in_ranked(facts: Facts, ranking: Ranking, settings: Settings, now: datetime) -> str:
    pod = facts.pod
    claimed = next((seen for seen in facts.targets if seen.info.node_name == podstate.claimed_node(pod)), None)
    if claimed is not None and claimed.chaperons is None:
        return f"{claimed.info.title}, which it is claimed by and which was not asked"
    found = chaperon_of(claimed, pod) if claimed is not None else None
    chaperon = found.decode() if found is not None else None
    attempts = failed_targets_of(pod.decode())
    view = ranked.RankedPod(
        claim=podstate.claimed_node(pod),
        claim_known=claimed is not None,
        claim_ready=claimed is not None and claimed.info.ready,
        claim_held=podstate.is_held(pod.finalizers),
        claim_unsent=False,
        claim_state=claimed.info.state if claimed is not None else "",
        chaperon=chaperon,
        failed=attempts,
        ranking=ranking,
        now=now,
        dwell=timedelta(seconds=settings.dwell),
        neglected=reason_by_age(chaperon, settings.take_up, now, made=bool(claimed and claimed.delegate)),
        closed=facts.closed,
        misplaced=_misplaced(facts, claimed.info) if claimed is not None else "",
    )
    tried = {node: attempt.reason for node, attempt in attempts.items()}
    here = claimed.info.title if claimed is not None else podstate.claimed_node(pod)
    titles = {seen.info.node_name: seen.info.title for seen in facts.targets}
    return _in_words(view, ranked.decide(view), here, titles, explain(ranking, tried, {}))


def _in_words(view: ranked.RankedPod, step: ranked.Step, here: str, titles: Mapping[str, str], nowhere: str) -> str:
    match step:
        case ranked.Bind():
            return f"the agent, which binds it next: its delegate in {here} has a node"
        case ranked.Claim(node):
            return f"the agent, which sends it to {titles.get(node, node)} next"
        case ranked.GiveUp(reason):
            return f"the agent, which takes it away from {here} next: {reason}"
        case ranked.Wait(message, seconds) if view.chaperon is not None:
            if not message:
                return f"a node in {here}, where its delegate is being scheduled"
            if view.neglected or ranked.is_gated(view.chaperon):
                return f"a controller in {here}: {message}"
            later = f"; it may move in {seconds:.0f} s" if seconds is not None else ""
            return f"room: one candidate is left in {here}, so that one autoscaler reacts ({message}){later}"
        case ranked.Wait(message):
            return f"{here}: {message}" if message else f"a target that can take it: {nowhere}"
        case ranked.Stop(message):
            return f"its namespace: {message}"


def _waits_in_reserve(facts: Facts, ranking: Ranking) -> str:
    pod = facts.pod
    found = [(seen.info.title, sighting) for seen in facts.targets if (sighting := _sighting(seen, pod)) is not None]
    if podstate.claimed_node(pod):
        own = next((item for item in found if item[1].uid == podstate.claimed_chaperon(pod)), None)
        if own is None:
            return "the agent, which looks whether the candidate that it is claimed by is still there"
        title, sighting = own
        return f"its delegate in {title} to be bound" if sighting.allowed else f"leave for its candidate in {title}"
    if facts.closed:
        return f"its namespace: {facts.closed}"
    reserved = _titles(found, "reserved")
    pending = _titles(found, "pending")
    if group_of(pod) is not None:
        return f"its group: {_group(facts)}" + (f"; a node is reserved for it in {reserved}" if reserved else "")
    if reserved:
        return f"the agent, which claims a reservation in {reserved}" + (f" or waits for {pending}" if pending else "")
    if pending:
        return f"a reservation in {pending}"
    refused = {sighting.node_name: sighting.reason for _, sighting in found}
    if ranking.order and not found:
        return f"the agent, which makes candidates in {', '.join(info.title for info in ranking.order)} next"
    return f"a target that can take it: {explain(ranking, refused, {})}"


def _titles(found: Iterable[tuple[str, CandidateStatus]], state: str) -> str:
    return ", ".join(title for title, sighting in found if sighting.state == state and not sighting.going)
