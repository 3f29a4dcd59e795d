from hack.lab.benchmarks.follow import written
from hack.lab.benchmarks.lab import Phase
from hack.lab.benchmarks.manifests import follower


def test_only_writes_to_what_follows_count() -> None:
    writes = {"source-agent POST configmaps 201": 2.0, "source-agent DELETE secrets 200": 3.0}
    others = {"source-agent PATCH pods/status 200": 5.0, "source-agent POST podchaperons 201": 7.0}
    assert written(Phase(1.0, {}, 0.0, {**writes, **others})) == 5.0


def test_pods_name_what_is_their_own_and_differ_in_nothing_else() -> None:
    own, alone = (follower("web", 3, "here", own=own) for own in (True, False))
    assert own["spec"]["volumes"] == [{"name": "own", "secret": {"secretName": "web-3"}}]
    assert own["metadata"] == alone["metadata"]
    assert alone["spec"]["containers"][0].items() <= own["spec"]["containers"][0].items()
