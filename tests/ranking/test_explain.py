from agent.ranking.explain import Row, explain, table
from agent.ranking.rank import Ranking
from agent.ranking.rejection import Rejection
from agent.ranking.snapshot import TargetInfo, amounts
from tests.ranking.pods_and_targets import free, pod_info, ranked, target_info, telling

EU = target_info("eu")


def test_the_explanation_names_every_target_that_will_not_do_and_why() -> None:
    away = target_info("us", ready=False, state="no answer since 10:00")
    ranking = ranked(pod_info(attempts={EU.node_name: "0/5 nodes"}), EU, away, target_info("x", namespace="other"))
    told = explain(ranking, {EU.node_name: "0/5 nodes"}, {})
    assert told == "0/2 targets are available: eu: 0/5 nodes, us: no answer since 10:00"


def test_a_filters_verdict_of_now_counts_more_than_the_memory_of_an_attempt() -> None:
    away = target_info("us", ready=False, state="no answer")
    assert explain(
        ranked(
            pod_info(),
            away,
        ),
        {away.node_name: "was full"},
        {},
    ).endswith("us: no answer")


def test_what_the_claim_says_counts_more_than_a_filters_verdict() -> None:
    away = target_info("us", ready=False, state="no answer")
    told = explain(
        ranked(
            pod_info(),
            away,
        ),
        {},
        {away.node_name: "the pod is claimed by this target: no answer"},
    )
    assert told == "0/1 targets are available: us: the pod is claimed by this target: no answer"


def test_what_the_claim_says_now_counts_more_than_the_memory_of_an_attempt() -> None:
    told = explain(ranked(pod_info(), EU), {EU.node_name: "was full"}, {EU.node_name: "is full"})
    assert told == "0/1 targets are available: eu: is full"


def test_targets_that_would_do_are_told_to_wait_for_the_one_that_has_the_claim() -> None:
    away = target_info("us", ready=False, state="no answer")
    told = explain(ranked(pod_info(), EU, away), {}, {away.node_name: "claimed: no answer"})
    assert told == (
        "0/2 targets are available: eu: not as long as another target may run the pod, us: claimed: no answer"
    )


def test_a_target_and_a_cluster_target_of_the_same_name_are_both_told() -> None:
    one = target_info("eu", ready=False, state="first")
    other = target_info("eu", node_name="admiralty-eu", namespace="", ready=False, state="second")
    assert explain(ranked(pod_info(), one, other), {}, {}) == "0/2 targets are available: eu: first, eu: second"


def test_without_targets_the_explanation_says_what_to_create() -> None:
    assert "create a Target" in explain(
        ranked(
            pod_info(),
        ),
        {},
        {},
    )


def rejected(*verdicts: tuple[TargetInfo, str]) -> Ranking:
    return Ranking((), 0, tuple((target_info, Rejection("Reason", message)) for target_info, message in verdicts))


def test_the_same_reason_of_many_targets_is_told_once() -> None:
    away = [target_info(f"c{number}", ready=False, state="unreachable") for number in range(37)]
    ranking = ranked(pod_info(cpu="400m"), target_info("eu", shapes=(telling(free("300m")),)), *away)
    assert explain(ranking, {}, {}) == (
        "0/38 targets are available: eu: insufficient cpu on every node (largest free 300m), 37 targets: unreachable"
    )


def test_the_line_of_the_issue() -> None:
    full = target_info("eu", shapes=(telling(free("300m")),))
    tainted = target_info("us", taints=({"key": "gpu", "value": "true", "effect": "NoSchedule"},))
    lost = target_info("ap", ready=False, state="unreachable (since 12:03)")
    assert explain(ranked(pod_info(cpu="1"), full, tainted, lost), {}, {}) == (
        "0/3 targets are available: ap: unreachable (since 12:03), "
        "eu: insufficient cpu on every node (largest free 300m), us: taint gpu=true"
    )


def test_a_long_list_is_cut_and_fits_an_event() -> None:
    told = explain(rejected(*((target_info(f"target-{n}"), f"reason {n} " + "x" * 500) for n in range(40))), {}, {})
    assert len(told) <= 1024
    assert told.startswith("0/40 targets are available: target-0: reason 0 xxx")
    assert told.endswith(" more")


def test_where_a_list_is_cut_what_stands_for_many_is_told() -> None:
    single = [(target_info(f"a{n}"), f"reason {n} " + "x" * 200) for n in range(9)]
    many = [(target_info(f"z{n}"), "unreachable") for n in range(9)]
    told = explain(rejected(*single, *many), {}, {})
    assert "9 targets: unreachable" in told


def test_the_table_has_scores_of_the_feasible_and_verdicts_of_the_others() -> None:
    room = amounts({"pods": "100"})
    good, bad = target_info("eu", allocatable=room, weight=20), target_info("us", allocatable=room)
    lost = target_info("ap", ready=False, state="no answer")
    asks = pod_info(attempts={bad.node_name: "0/5 nodes"})
    first, second, third = table(ranked(asks, lost, bad, good), asks)
    assert first == Row("eu", good.node_name, None, {"capacity": 99.0, "target_weight": 60.0}, 699.0, "")
    assert (second.target, second.attempt) == ("us", "0/5 nodes")
    assert third == Row("ap", lost.node_name, Rejection("TargetNotReady", "no answer"), {}, None, "")


def test_the_table_has_scores_that_compare_targets() -> None:
    term = {"matchExpressions": [{"key": "topology.kubernetes.io/region", "operator": "In", "values": ["eu"]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": term}]}
    asks = pod_info(proxy={"affinity": {"nodeAffinity": preferred}})
    rows = table(ranked(asks, target_info("us"), EU), asks)
    assert [(row.target, row.scores["affinity"]) for row in rows] == [("eu", 100.0), ("us", 0.0)]
    assert rows[0].total is not None
    assert rows[1].total is not None
    assert rows[0].total - rows[1].total == 100_000
