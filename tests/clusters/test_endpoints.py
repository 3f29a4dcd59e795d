"""Cached ports of virtual nodes."""

from agent.clusters.stores.endpoints import NO_CERTIFICATE, NO_PORT, SERVING, Endpoints, Served

WELL = Served(SERVING, "fine")
UNSIGNED = Served(NO_CERTIFICATE, "nobody signs")
NONE_FREE = Served(NO_PORT, "none is free")


def test_nodes_are_told_of_changes_and_of_nothing_else() -> None:
    endpoints, told = Endpoints(), list[str]()
    endpoints.subscribe(told.append)
    for _ in range(2):
        endpoints.announce("a", 10250)
        endpoints.announce("b", 10251)
        endpoints.all(WELL)
    assert told == ["a", "b", "a", "b"]
    endpoints.all(UNSIGNED)
    assert told == ["a", "b"] * 3
    assert endpoints.port("a") == 10250
    assert endpoints.served("b") == UNSIGNED


def test_a_problem_of_one_node_is_its_own_until_it_has_a_port() -> None:
    endpoints = Endpoints()
    endpoints.all(WELL)
    endpoints.announce("a", 10250)
    endpoints.fail("b", NONE_FREE)
    assert (endpoints.served("a"), endpoints.served("b"), endpoints.port("b")) == (WELL, NONE_FREE, None)
    endpoints.announce("b", 10251)
    assert endpoints.served("b") == WELL
    endpoints.withdraw("b")
    assert endpoints.port("b") is None


def test_only_serving_is_well() -> None:
    assert WELL.well
    assert not UNSIGNED.well
