"""Ranking of the targets for a pod, by the agent's own code over the facts that the command has read. Pure."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from agent.api import names
from agent.base.clock import parse
from agent.cli.explaining.facts import Facts, Seen, Unexplained, is_of
from agent.kube.store import Object
from agent.model import podstate
from agent.model.errors import InvalidPod
from agent.ranking.placed import reasoned
from agent.ranking.rank import Ranking, rank
from agent.ranking.snapshot import PodInfo
from agent.ranking.usage import Usages
from agent.scheduler.cache.assumed_pods import ASSUMED_SECONDS
from agent.scheduler.cache.pod_info import PodInfos
from agent.settings import Settings


def ranking_of(facts: Facts, settings: Settings, now: datetime) -> tuple[PodInfo, Ranking]:
    """Return the demand of a pod and its ranking. The target of a bound pod is ranked as if the pod were not there."""
    pod_infos = PodInfos()
    pod_info = demand_of(facts, pod_infos)
    return pod_info, ranked_among(facts, pod_info, holdings([facts], pod_infos, now), settings)


def demand_of(facts: Facts, pod_infos: PodInfos) -> PodInfo:
    """Return the demand of a pod. Raises Unexplained."""
    pod = facts.pod
    for namespace in facts.namespaces:
        pod_infos.relabel(namespace.name, namespace.labels)
    try:
        pod_info = (pod_infos.about if pod.node_name else pod_infos.of)(pod).beside(facts.volumes)
    except InvalidPod as error:
        raise Unexplained(f"pod {pod.namespace}/{pod.name} cannot be placed: {error}") from None
    pod_info = pod_info.following(facts.following.placed if facts.following else None)
    return pod_info.choosing(facts.choice).claiming(facts.claims)


def ranked_among(facts: Facts, pod_info: PodInfo, usages: Usages, settings: Settings) -> Ranking:
    """Rank the targets for a pod, less the capacity that `usages` take there."""
    serving = [seen.info if chaperon_of(seen, facts.pod) else seen.for_new_pods for seen in facts.targets]
    ranking = rank(pod_info, serving, usages, settings.weights)
    if facts.following is not None:
        told = reasoned(ranking.rejected, facts.following.placed, facts.following.reasons)
        ranking = replace(ranking, rejected=told)
    return ranking


def chaperon_of(seen: Seen, pod: Object) -> Object | None:
    """Return the chaperon of a pod in a target, None if it has none or that could not be read."""
    return next((chaperon for chaperon in seen.chaperons or () if is_of(chaperon, pod)), None)


def holdings(found: Iterable[Facts], pod_infos: PodInfos, now: datetime) -> Usages:
    """Return the capacity that proxy pods take in targets, as an agent counts it that has just started.

    :param found: facts of some pods, all with the same proxy pods
    """
    usages = Usages()
    proxies: tuple[Object, ...] = ()
    spoken = set[str | None]()
    for facts in found:
        proxies = facts.proxies
        for chaperon in (each for seen in facts.targets for each in seen.chaperons or ()):
            if chaperon.phase:
                spoken.add(chaperon.labels.get(names.LABEL_PARENT_UID))
    for pod in proxies:
        node = podstate.occupied_node(pod)
        if not node:
            continue
        new = now - parse(pod.head.metadata.creation_timestamp or "") < timedelta(seconds=ASSUMED_SECONDS)
        usages.put(
            pod_infos.about(pod),
            node,
            assumed=new and not pod.node_name,
            undelegated=not pod.node_name and pod.uid not in spoken,
            deleting=pod.deleting,
        )
    return usages
