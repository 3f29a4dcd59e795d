"""Limits of one Envoy, divided again after changes in some namespaces."""

from hypothesis import given
from hypothesis import strategies as st

from agent.model.gatewayallocation import Allocation
from agent.model.gatewaysize import At, Cost, Limits, peer_entry

SPACES = "abc"
# Parts of the limits are binary fractions: sums are exact in any order.
LIMIT = Limits(64.0, float("inf"))


def costs(namespace: str, peer: int, services: list[int]) -> dict[At, Cost]:
    key = (namespace, "eu")
    return {
        peer_entry(key): Cost(float(peer)),
        **{(key, "offered", f"service-{n}", 0): Cost(float(each)) for n, each in enumerate(services)},
    }


def memory(found: dict[str, dict[At, Cost]], allocation: Allocation) -> float:
    return sum(each[at].memory for name, each in found.items() for at in allocation.kept(name))


changes = st.lists(
    st.tuples(
        st.sampled_from(SPACES),
        st.integers(1, 8),
        st.one_of(st.none(), st.lists(st.integers(1, 24), max_size=6)),
    ),
    max_size=8,
)


@given(changes)
def test_what_is_kept_is_what_a_division_of_everything_keeps(given: list[tuple[str, int, list[int] | None]]) -> None:
    allocation, found = Allocation(LIMIT), dict[str, dict[At, Cost]]()
    for namespace, peer, services in given:
        before = {at for name in found for at in allocation.kept(name)}
        found[namespace] = costs(namespace, peer, services) if services is not None else {}
        allocation.update(namespace, found[namespace])
        had = {name: set(allocation.kept(name)) for name in SPACES}
        changed = allocation.settle()
        whole = Allocation(LIMIT, before)
        for name, each in found.items():
            whole.update(name, each)
        whole.settle()
        assert {name: allocation.kept(name) for name in found} == {name: whole.kept(name) for name in found}
        assert changed == {name for name in SPACES if set(allocation.kept(name)) != had[name]}
        assert memory(found, allocation) <= LIMIT.memory


def test_a_change_of_one_namespace_that_needs_no_more_leaves_others_as_they_are() -> None:
    allocation = Allocation(LIMIT)
    for name in SPACES:
        allocation.update(name, costs(name, 1, [8] * 6))
    assert allocation.settle() == set(SPACES)
    assert sum(allocation.left_out("a").values()) > 0
    allocation.update("a", costs("a", 1, [8] * 5 + [7]))
    assert allocation.settle() <= {"a"}
