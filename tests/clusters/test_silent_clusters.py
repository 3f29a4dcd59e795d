"""Counting of the clusters behind Targets."""

from hypothesis import given
from hypothesis import strategies as st

from agent.clusters.health.silent_clusters import Member, SilentClusters
from agent.kube.store import Key
from agent.model.targetlife import is_held


def key(name: str) -> Key:
    return ("", name)


def clusters(**members: Member) -> SilentClusters:
    found = SilentClusters()
    for name, member in members.items():
        found.put(key(name), member)
    return found


AWAY_A, AWAY_B, HERE_B, HERE_C = Member("a", True), Member("b", True), Member("b", False), Member("c", False)


def test_clusters_are_counted_and_not_targets() -> None:
    assert not clusters(one=AWAY_A, two=HERE_B).held
    assert not clusters(one=AWAY_A, two=AWAY_A, three=HERE_B).held
    assert clusters(one=AWAY_A, two=AWAY_B, three=HERE_C).held
    assert not clusters(one=AWAY_A, two=AWAY_B, three=HERE_B, four=HERE_C).held


def test_a_cluster_answers_by_another_target_that_is_ready() -> None:
    found = clusters(eu=Member("a", True), direct=Member("a", False, True), us=Member("b", False, True))
    assert found.way_to(key("eu")) == "direct"
    assert found.beside(key("eu")) == [key("direct")]
    found.put(key("direct"), Member("a", False))
    assert found.way_to(key("eu")) == ""
    assert clusters(us=Member("b", False, True)).way_to(key("us")) == ""
    assert SilentClusters().way_to(key("eu")) == ""


MEMBERS = st.builds(Member, st.sampled_from(["", "a", "b", "c"]), st.booleans(), st.booleans())
CHANGES = st.lists(st.tuples(st.sampled_from("abcdef"), st.none() | MEMBERS), max_size=30)


@given(CHANGES)
def test_counts_that_events_change_are_those_of_a_count_of_all(changes: list[tuple[str, Member | None]]) -> None:
    found, members = SilentClusters(), {}
    for name, member in changes:
        if member is None:
            members.pop(name, None)
            found.remove(key(name))
        else:
            members[name] = member
            found.put(key(name), member)
        answers: dict[str, bool] = {}
        for each in members.values():
            if each.uid:
                answers[each.uid] = answers.get(each.uid, False) or not each.silent
        assert found.held == is_held(sum(not each for each in answers.values()), len(answers))
