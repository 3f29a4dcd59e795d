from agent.ranking.cluster_totals import ClusterTotals, cluster_totals
from agent.ranking.snapshot import Free, Shape


def shape(cpu: int, count: int, *free: Free, unschedulable: bool = False, told: bool = True) -> Shape:
    return Shape({}, (), unschedulable, {"cpu": cpu, "pods": 10}, count, free if told else None)


def test_what_is_requested_is_what_is_not_free() -> None:
    found = cluster_totals([shape(8, 2, Free({"cpu": 3, "pods": 9}), Free({"pods": 4})), shape(4, 1, Free({"cpu": 4}))])
    assert found.allocatable == {"cpu": 20, "pods": 30}
    assert found.free == {"cpu": 7, "pods": 13}
    assert found.requested == {"cpu": 13, "pods": 17}
    assert found.most_free == {"cpu": 4, "pods": 9}


def test_a_cordoned_node_counts_neither_as_free_nor_as_a_part_of_the_whole() -> None:
    cordoned = shape(8, 1, Free({"cpu": 8}), unschedulable=True)
    assert cluster_totals([cordoned, shape(4, 1, Free({"cpu": 1}))]) == ClusterTotals(
        {"cpu": 4, "pods": 10}, {"cpu": 1}, {"cpu": 1}
    )
    assert cluster_totals([cordoned]) == ClusterTotals({}, {}, None)


def test_of_a_cluster_that_tells_its_best_nodes_only_these_are_known() -> None:
    found = cluster_totals([shape(8, 50, Free({"cpu": 6}, 2))])
    assert (found.free, found.requested, found.most_free) == (None, None, {"cpu": 6})


def test_of_one_that_tells_nothing_nothing_is_made_up() -> None:
    assert cluster_totals([]) == ClusterTotals({}, None, None)
    found = cluster_totals([shape(8, 1, told=False)])
    assert (found.free, found.most_free, found.idle) == (None, None, None)
    assert found.allocatable == {"cpu": 8, "pods": 10}


def test_what_is_used_is_told_apart_from_what_is_requested() -> None:
    found = cluster_totals([shape(8, 1, Free({"cpu": 1}))], used={"cpu": 2})
    assert (found.requested, found.idle) == ({"cpu": 7, "pods": 10}, {"cpu": 6, "pods": 10})


def test_of_more_pods_than_there_is_room_for_less_than_nothing_is_not_left() -> None:
    assert ClusterTotals({"cpu": 1}, {}, None, used={"cpu": 3}).idle == {"cpu": 0}
