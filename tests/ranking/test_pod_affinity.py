"""Inter-pod affinity and anti-affinity over virtual nodes, compared with a naive reference."""

import dataclasses
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent.ranking.snapshot import PodInfo, TargetInfo
from agent.ranking.usage import Usages
from tests.ranking.pods_and_targets import pod_info, ranked, target_info

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def term(key: str = "zone", **more: Any) -> dict[str, Any]:
    labels = {name: value for name, value in more.items() if isinstance(value, str)}
    rest = {name: value for name, value in more.items() if not isinstance(value, str)}
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}, **rest}


def near(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAffinity": {REQUIRED: list(terms)}}


def apart(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def preferring(weight: int, wanted: dict[str, Any], kind: str = "podAffinity") -> dict[str, Any]:
    return {kind: {PREFERRED: [{"weight": weight, "podAffinityTerm": wanted}]}}


def pod(uid: str = "", affinity: dict[str, Any] | None = None, namespace: str = "default", **labels: str) -> PodInfo:
    return pod_info(uid=uid, labels=labels, namespace=namespace, proxy={"affinity": affinity} if affinity else {})


EU1, EU2, US = (
    target_info(title, namespace="", labels={"zone": zone, "host": title})
    for title, zone in (("eu1", "eu"), ("eu2", "eu"), ("us", "us"))
)
BARE = target_info("bare", namespace="", labels={})
ALL = (EU1, EU2, US, BARE)


def usage(**pods: PodInfo) -> Usages:
    """Return pods by the title of their target."""
    held = Usages()
    for title, placed in pods.items():
        held.put(placed, f"admiralty-default-{title}")
    return held


def feasible(asks: PodInfo, held: Usages, targets: tuple[TargetInfo, ...] = ALL) -> list[str]:
    return sorted(each.title for each in ranked(asks, *targets, held=held).order)


def test_a_pod_goes_to_the_domain_of_those_it_wants_to_be_near_to() -> None:
    held = usage(eu1=pod("db", app="db"))
    assert feasible(pod(affinity=near(term(app="db"))), held) == ["eu1", "eu2"]
    assert feasible(pod(affinity=near(term("host", app="db"))), held) == ["eu1"]


def test_without_any_such_pod_it_waits_unless_it_is_the_first_of_its_kind() -> None:
    asks = near(term(app="db"))
    assert feasible(pod(affinity=asks, app="web"), Usages()) == []
    assert feasible(pod(affinity=asks, app="db"), Usages()) == ["eu1", "eu2", "us"]
    assert feasible(pod(affinity=asks, app="db"), usage(us=pod("1", app="db"))) == ["us"]


def test_only_a_pod_that_matches_all_terms_counts() -> None:
    both = near(term(app="db"), term("host", tier="gold"))
    held = usage(eu1=pod("1", app="db"), us=pod("2", app="db", tier="gold"))
    assert feasible(pod(affinity=both), held) == ["us"]


def test_a_pod_keeps_away_from_the_domain_of_those_it_does_not_want_to_be_near_to() -> None:
    held = usage(eu1=pod("1", app="web"))
    assert feasible(pod(affinity=apart(term(app="web")), app="web"), held) == ["bare", "us"]
    assert feasible(pod(affinity=apart(term("host", app="web"))), held) == ["bare", "eu2", "us"]


def test_pods_that_are_there_keep_others_away() -> None:
    held = usage(eu1=pod("1", affinity=apart(term(app="web"))))
    ranking = ranked(pod(app="web"), *ALL, held=held)
    assert sorted(each.title for each in ranking.order) == ["bare", "us"]
    assert {rejection for _, rejection in ranking.rejected} == {
        ("PodAntiAffinity", "pod anti-affinity of a pod that is there")
    }
    assert feasible(pod(app="other"), held) == ["bare", "eu1", "eu2", "us"]
    held.remove("1")
    assert feasible(pod(app="web"), held) == ["bare", "eu1", "eu2", "us"]


def test_a_pod_does_not_keep_itself_away() -> None:
    asks = pod("me", affinity=apart(term(app="web")), app="web")
    assert feasible(asks, usage(eu1=asks)) == ["bare", "eu1", "eu2", "us"]


def test_terms_are_about_the_pods_own_namespace_unless_they_name_others() -> None:
    held = usage(eu1=pod("1", app="db", namespace="data"))
    assert feasible(pod(affinity=apart(term(app="db"))), held) == ["bare", "eu1", "eu2", "us"]
    assert feasible(pod(affinity=apart(term(app="db", namespaces=["data"]))), held) == ["bare", "us"]
    assert feasible(pod(affinity=apart(term(app="db", namespaceSelector={}))), held) == ["bare", "us"]


def of(team: str, uid: str = "1") -> PodInfo:
    """Return a database of a team, in the team's namespace."""
    return dataclasses.replace(pod(uid, namespace=f"team-{team}", app="db"), namespace_labels={"team": team})


def test_terms_may_choose_namespaces_by_their_labels() -> None:
    of_a = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
    held = usage(eu1=of("a"), us=of("b", "2"))
    assert feasible(pod(affinity=apart(term(app="db", **of_a))), held) == ["bare", "us"]
    assert feasible(pod(affinity=near(term(app="db", **of_a))), held) == ["eu1", "eu2"]
    both = apart(term(app="db", namespaces=["team-b"], **of_a))
    assert feasible(pod(affinity=both), held) == ["bare"]
    # The pod's own namespace counts only if it is chosen, too.
    own = usage(us=pod("3", app="db"))
    assert "us" in feasible(pod(affinity=apart(term(app="db", **of_a))), own)


def test_pods_that_are_there_may_choose_namespaces_by_their_labels_too() -> None:
    keeps_away = pod("1", affinity=apart(term(app="db", namespaceSelector={"matchLabels": {"team": "a"}})))
    held = usage(eu1=keeps_away)
    assert feasible(of("a", "2"), held) == ["bare", "us"]
    assert feasible(of("b", "2"), held) == ["bare", "eu1", "eu2", "us"]


def test_labels_of_a_namespace_that_change_count_at_once() -> None:
    labels = {"team": "b"}
    placed = dataclasses.replace(pod("1", namespace="x", app="db"), namespace_labels=labels)
    held = usage(eu1=placed)
    asks = pod(affinity=apart(term(app="db", namespaceSelector={"matchLabels": {"team": "a"}})))
    assert feasible(asks, held) == ["bare", "eu1", "eu2", "us"]
    labels["team"] = "a"
    held.counts.recount()
    assert feasible(asks, held) == ["bare", "us"]


def test_match_label_keys_take_the_pods_own_values() -> None:
    held = usage(eu1=pod("1", app="web", hash="1"))
    same = apart(term(app="web", matchLabelKeys=["hash"]))
    assert feasible(pod(affinity=same, app="web", hash="1"), held) == ["bare", "us"]
    assert feasible(pod(affinity=same, app="web", hash="2"), held) == ["bare", "eu1", "eu2", "us"]
    other = apart(term(app="web", mismatchLabelKeys=["hash"]))
    assert feasible(pod(affinity=other, app="web", hash="2"), held) == ["bare", "us"]


def scores(asks: PodInfo, held: Usages) -> dict[str, float]:
    ranking = ranked(asks, EU1, EU2, US, held=held)
    found = {each.title: ranking.scored(asks, each) for each in ranking.order}
    return {title: scored.scores.get("pod_affinity", -1) for title, scored in found.items() if scored}


def test_preferred_affinity_draws_and_preferred_anti_affinity_repels() -> None:
    held = usage(eu1=pod("1", app="db"))
    assert scores(pod(affinity=preferring(10, term(app="db"))), held) == {"eu1": 100, "eu2": 100, "us": 0}
    repelled = preferring(10, term("host", app="db"), "podAntiAffinity")
    assert scores(pod(affinity=repelled), held) == {"eu1": 0, "eu2": 100, "us": 100}


def test_what_pods_that_are_there_prefer_and_require_draws_others() -> None:
    liking = usage(us=pod("1", affinity=preferring(5, term(app="web"))))
    assert scores(pod(app="web"), liking) == {"eu1": 0, "eu2": 0, "us": 100}
    needing = usage(us=pod("1", affinity=near(term(app="web"))))
    assert scores(pod(app="web"), needing) == {"eu1": 0, "eu2": 0, "us": 100}


def test_preferences_may_choose_namespaces_by_their_labels() -> None:
    of_a = term(app="db", namespaceSelector={"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]})
    found = scores(pod(affinity=preferring(10, of_a)), usage(eu1=of("a"), us=of("b", "2")))
    assert (found["eu1"], found["us"]) == (100.0, 0.0)


def test_without_preferences_there_is_no_such_score() -> None:
    assert scores(pod(app="web"), usage(us=pod("1", app="web"))) == {"eu1": -1, "eu2": -1, "us": -1}


APPS = st.sampled_from(["a", "b"])
TERMS = st.tuples(APPS, st.sampled_from(["zone", "host"]))
RESIDENTS = st.lists(st.tuples(st.sampled_from(["eu1", "eu2", "us"]), APPS, st.none() | TERMS), max_size=6)


@given(RESIDENTS, APPS, st.none() | TERMS, st.none() | TERMS)
def test_who_is_refused_is_who_breaks_a_term_of_either_side(
    placed_pods: list[tuple[str, str, tuple[str, str] | None]],
    app: str,
    keeps_off: tuple[str, str] | None,
    template: tuple[str, str] | None,
) -> None:
    held = Usages()
    for number, (title, own, theirs) in enumerate(placed_pods):
        affinity = apart(term(theirs[1], app=theirs[0])) if theirs else None
        held.put(pod(str(number), affinity, app=own), f"admiralty-default-{title}")
    affinity = {
        **(apart(term(keeps_off[1], app=keeps_off[0])) if keeps_off else {}),
        **(near(term(template[1], app=template[0])) if template else {}),
    }
    by_title = {each.title: each for each in (EU1, EU2, US)}

    def together(one: str, other: str, key: str) -> bool:
        return by_title[one].labels[key] == by_title[other].labels[key]

    want = []
    for title in by_title:
        fine = True
        for there, own, theirs in placed_pods:
            fine &= not (theirs and theirs[0] == app and together(title, there, theirs[1]))
            fine &= not (keeps_off and keeps_off[0] == own and together(title, there, keeps_off[1]))
        if template:
            liked = [there for there, own, _ in placed_pods if own == template[0]]
            fine &= any(together(title, there, template[1]) for there in liked) or (not liked and template[0] == app)
        if fine:
            want.append(title)
    assert feasible(pod(affinity=affinity, app=app), held, (EU1, EU2, US)) == sorted(want)
