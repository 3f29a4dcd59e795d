"""Rules that a fleet must never break, checked against the lives of pods. Pure: evidence in, violations out.

Requests take time, so an order counts only if it is certain. A pod is over when its kubelet has reported that
it finished, or when it has been deleted. Two pods overlap if the second one was created while the first one
existed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from hack.lab.sandbox.certificates import CLIENTS
from hack.lab.sandbox.manifests import AGENT_NAMESPACE
from hack.lab.soak.evidence import Evidence
from hack.lab.soak.lives import ChaperonAsked, History, Life, Moment

NODE_EXCUSE_SECONDS = 25.0
"""Shortest outage of the source, in seconds, that excuses a virtual node that missed heartbeats."""
NODE_LEASE_SECONDS = 50.0
_VIRTUAL = "admiralty-"
"""Prefix of the names of virtual nodes."""
_CONTROLLERS = (
    "replicaset-controller",
    "statefulset-controller",
    "job-controller",
    "generic-garbage-collector",
    "namespace-controller",
)
_MAY_DELETE = (*(f"system:serviceaccount:kube-system:{name}" for name in _CONTROLLERS), CLIENTS["admin"][0])
"""Users that may delete a proxy pod: the controllers of its workload, and the user."""
_AGENT = f"system:serviceaccount:{AGENT_NAMESPACE}:flotilla-agent"


@dataclass(frozen=True)
class Violation:
    """A broken rule, and the audit lines that prove it."""

    rule: str
    what: str
    lines: tuple[str, ...] = ()


Rule = Callable[[Evidence], Iterator[Violation]]


def judge(evidence: Evidence) -> list[Violation]:
    """Return all violations of all rules."""
    return [violation for rule in RULES for violation in rule(evidence)]


def two_at_once(evidence: Evidence) -> Iterator[Violation]:
    """Find proxy pods that had two delegates at the same time."""
    for parent, delegates in evidence.history.delegates().items():
        for first, second in combinations(delegates, 2):
            if _overlap(evidence, first, second):
                yield _both("two delegates at once", f"of proxy pod {_name(evidence, parent)}", first, second)


def two_of_one_name(evidence: Evidence) -> Iterator[Violation]:
    """Find pods of a StatefulSet that ran at the same time under one name."""
    proxies = evidence.history.proxies()
    named: dict[tuple[str, str], list[Life]] = {}
    for parent, delegates in evidence.history.delegates().items():
        proxy = proxies.get(parent)
        if proxy is not None and proxy.owner.kind == "StatefulSet":
            named.setdefault((proxy.namespace, proxy.name), []).extend(delegates)
    for (_, name), delegates in named.items():
        delegates.sort(key=lambda each: each.born.latest)
        for first, second in combinations(delegates, 2):
            if first.parent != second.parent and _overlap(evidence, first, second):
                yield _both("two pods of one StatefulSet's name at once", name, first, second)


def deleted_in_vain(evidence: Evidence) -> Iterator[Violation]:
    """Find delegates with a node that were deleted although their proxy pod was wanted and had not finished.

    Excludes delegates whose PodChaperon was deleted before they had a node: the garbage collector may delete
    them late.
    """
    proxies = evidence.history.proxies()
    chaperons = _by_name(evidence.history.chaperons)
    for parent, delegates in evidence.history.delegates().items():
        proxy = proxies.get(parent)
        for delegate in delegates:
            first = delegate.leaving or delegate.gone
            if proxy is None or first is None or _is_finished(delegate, first) or not _was_placed(delegate, first):
                continue
            asked = chaperons.get((delegate.cluster, delegate.name), [])
            if _was_given_up(delegate, asked):
                continue
            wanted_no_more = [each for each in (proxy.leaving, proxy.gone, proxy.finished) if each is not None]
            if not any(each.earliest < first.latest for each in wanted_no_more):
                lines = [*delegate.told(), *(each.line for each in asked), *proxy.told()]
                what = f"{delegate.cluster}/{delegate.name} of proxy pod {proxy.name}"
                yield Violation("a delegate was deleted in vain", what, tuple(lines))


def proxies_taken(evidence: Evidence) -> Iterator[Violation]:
    """Find proxy pods that were deleted by a user without the right to decide that."""
    delegates = evidence.history.delegates()
    for uid, proxy in evidence.history.proxies().items():
        leaving = proxy.leaving
        if leaving is None or leaving.user in _MAY_DELETE:
            continue
        if not leaving.user and evidence.excused(proxy.cluster, leaving.earliest, leaving.latest):
            # The API server was killed before it could record the user.
            continue
        asked = [each for each in evidence.history.chaperons if each.parent == uid]
        mine = delegates.get(uid, [])
        if mine or not _is_in_doubt(evidence, proxy, asked):
            lines = [*proxy.told(), *(each.line for each in asked), *(line for each in mine for line in each.told())]
            what = f"{proxy.name} by {leaving.user or 'nobody who is known'}"
            yield Violation("a proxy pod was deleted by nobody who may", what, tuple(lines))


def let_go(evidence: Evidence) -> Iterator[Violation]:
    """Find proxy pods that were deleted before their delegate was over, or before it was created."""
    proxies = evidence.history.proxies()
    chaperons = _by_name(evidence.history.chaperons)
    for parent, delegates in evidence.history.delegates().items():
        proxy = proxies.get(parent)
        if proxy is None or proxy.gone is None:
            continue
        for delegate in delegates:
            over = evidence.over(delegate)
            if over is None or proxy.gone.latest < over.earliest:
                what = f"{proxy.name}, delegate in {delegate.cluster}"
                asked = chaperons.get((delegate.cluster, delegate.name), [])
                lines = [*proxy.told(), *(each.line for each in asked), *delegate.told()]
                yield Violation("a proxy pod went before its delegate", what, tuple(lines))


def of_nobody(evidence: Evidence) -> Iterator[Violation]:
    """Find delegates whose proxy pod never existed."""
    proxies = evidence.history.proxies()
    for parent, delegates in evidence.history.delegates().items():
        if parent not in proxies:
            for delegate in delegates:
                what = f"{delegate.cluster}/{delegate.name}"
                yield Violation("a delegate of no proxy pod", what, tuple(delegate.told()))


def ran_again(evidence: Evidence) -> Iterator[Violation]:
    """Find proxy pods whose finished work ran again."""
    for parent, delegates in evidence.history.delegates().items():
        for first, second in pairwise(delegates):
            if first.phase and not first.restarts:
                yield _both("finished work ran again", f"proxy pod {_name(evidence, parent)}", first, second)


def lost_work(evidence: Evidence) -> Iterator[Violation]:
    """Find proxy pods that failed without a deletion, although none of their delegates had failed."""
    delegates = evidence.history.delegates()
    for uid, proxy in evidence.history.proxies().items():
        mine = delegates.get(uid, [])
        if proxy.phase != "Failed" or proxy.finished is None or any(each.phase == "Failed" for each in mine):
            continue
        if proxy.leaving is None or proxy.finished.latest < proxy.leaving.earliest:
            lines = [*proxy.told(), *(line for each in mine for line in each.told())]
            what = f"{proxy.name} Failed ({proxy.reason}), its delegates did not"
            yield Violation("work was lost", what, tuple(lines))


def too_often(evidence: Evidence) -> Iterator[Violation]:
    """Find Jobs with more succeeded pods than completions."""
    proxies = evidence.history.proxies()
    done: dict[str, list[Life]] = {}
    for parent, delegates in evidence.history.delegates().items():
        proxy = proxies.get(parent)
        if proxy is not None and proxy.owner.kind == "Job":
            done.setdefault(proxy.owner.name, []).extend(each for each in delegates if each.phase == "Succeeded")
    for job, lives in done.items():
        if len(lives) > evidence.jobs.get(job, len(lives)):
            what = f"Job {job}: {len(lives)} delegates succeeded, {evidence.jobs[job]} were asked for"
            yield Violation("finished work ran again", what, tuple(line for each in lives for line in each.told()))


def vanished(evidence: Evidence) -> Iterator[Violation]:
    """Find delegates that no longer exist, without a line or an outage that explains it."""
    for life in evidence.history.lives.values():
        if life.parent and (life.cluster, life.uid) not in evidence.living and evidence.over(life) is None:
            yield Violation("a delegate vanished", f"{life.cluster}/{life.name}", tuple(life.told()))


def nodes_not_ready(evidence: Evidence) -> Iterator[Violation]:
    """Find virtual nodes that became not Ready while all ordinary nodes of the source stayed Ready."""
    ready: set[str] = set()
    ordinary = [
        told.at
        for told in evidence.history.nodes
        if told.cluster == evidence.source and not told.name.startswith(_VIRTUAL) and told.ready != "True"
    ]
    for told in evidence.history.nodes:
        if told.cluster != evidence.source or not told.name.startswith(_VIRTUAL):
            continue
        if told.ready == "True":
            ready.add(told.name)
        elif told.name in ready:
            ready.discard(told.name)
            since = told.at - NODE_LEASE_SECONDS
            blind = any(abs(at - told.at) < NODE_LEASE_SECONDS for at in ordinary)
            if not blind and not evidence.excused(told.cluster, since, told.at, least=NODE_EXCUSE_SECONDS):
                yield Violation("a virtual node was not Ready", f"{told.name}: {told.ready}", (told.line,))


def nobody_led(evidence: Evidence) -> Iterator[Violation]:
    """Find periods without a leader that were too long, although the API and an agent were available."""
    for cluster, moments in leading(evidence.history).items():
        for (began, first), (ended, second) in pairwise(moments):
            late = evidence.might_lead(cluster, began, ended) > evidence.leaderless
            if late and not evidence.excused(cluster, began, ended):
                what = f"{cluster}: {ended - began:.1f} s without a leader"
                yield Violation("another led too late", what, (first, second))


RULES: tuple[Rule, ...] = (
    two_at_once,
    two_of_one_name,
    deleted_in_vain,
    proxies_taken,
    let_go,
    of_nobody,
    ran_again,
    lost_work,
    too_often,
    vanished,
    nodes_not_ready,
    nobody_led,
)


def leading(history: History) -> dict[str, list[tuple[float, str]]]:
    """Return the renewals of each cluster's leader lease, by time: pairs of seconds since 1970 and audit line."""
    found: dict[str, list[tuple[float, str]]] = {}
    for renewal in sorted(history.renewals, key=lambda each: each.at):
        if renewal.holder:
            found.setdefault(renewal.cluster, []).append((renewal.at, f"{renewal.line} for {renewal.holder}"))
    return found


def _is_in_doubt(evidence: Evidence, proxy: Life, asked: Sequence[ChaperonAsked]) -> bool:
    """Return whether a target may have failed during the request that creates a delegate.

    The agent cannot find out whether such a delegate has run. If it must not run twice, the agent deletes its
    proxy pod.
    """
    leaving = proxy.leaving
    if leaving is None or leaving.user != _AGENT or proxy.restarts:
        return False
    return any(evidence.excused(each.cluster, proxy.born.earliest, leaving.latest) for each in asked)


def _overlap(evidence: Evidence, first: Life, second: Life) -> bool:
    over = evidence.over(first)
    if over is None:
        return True
    return second.born.latest < over.earliest


def _is_finished(life: Life, at: Moment) -> bool:
    return life.finished is not None and life.finished.earliest <= at.latest


def _was_placed(life: Life, at: Moment) -> bool:
    return life.placed is not None and life.placed.latest < at.earliest


def _was_given_up(delegate: Life, asked: Sequence[ChaperonAsked]) -> bool:
    """Return whether the PodChaperon was deleted after its delegate was created and before that had a node."""
    placed = delegate.placed
    return placed is not None and any(
        each.deletes and delegate.born.earliest <= each.at < placed.earliest for each in asked
    )


def _by_name(asked: Sequence[ChaperonAsked]) -> dict[tuple[str, str], list[ChaperonAsked]]:
    """Group the requests for PodChaperons by cluster and name; a delegate has the name of its PodChaperon."""
    found: dict[tuple[str, str], list[ChaperonAsked]] = {}
    for each in asked:
        found.setdefault((each.cluster, each.name), []).append(each)
    return found


def _both(rule: str, what: str, first: Life, second: Life) -> Violation:
    return Violation(rule, what, (*first.told(), *second.told()))


def _name(evidence: Evidence, uid: str) -> str:
    proxy = evidence.history.proxies().get(uid)
    return proxy.name if proxy else uid
