"""Fences: with any clock error, the old pod is stopped before another one may start."""

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from agent.model import fence
from agent.model.fence import Seen

NOON = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
TERM, GRACE, MARGIN = 60.0, 30.0, 30.0


def lease(renewed: str, *, written: datetime | None = None, term: Any = 60) -> dict[str, Any]:
    time = written.isoformat() if written is not None else None
    fields = {"manager": "source", "time": time, "fieldsV1": {"f:spec": {"f:renewTime": {}}}}
    metadata = {"uid": "L", "managedFields": [{"fieldsV1": {}}, fields] if time else []}
    return {"metadata": metadata, "spec": {"renewTime": renewed, "leaseDurationSeconds": term}}


@pytest.mark.parametrize(
    ("levels", "wanted"),
    [
        ([], False),
        ([{}, {}], False),
        ([{"multicluster/fence": "lease"}], True),
        ([{"multicluster.admiralty.io/fence": "lease"}], True),
        ([None, {"multicluster/fence": "lease"}], True),
        ([{"multicluster/fence": "none"}, {"multicluster/fence": "lease"}], False),
        ([{"multicluster/fence": "lease"}, {"multicluster/fence": "none"}], True),
        ([{"multicluster/fence": "storage"}, {"multicluster/fence": "lease"}], True),
    ],
)
def test_what_is_said_closest_to_the_pod_counts(levels: list[Any], wanted: bool) -> None:
    assert fence.asked(levels) is wanted


def test_a_promise_is_read_as_it_was_written_and_nothing_else_is_one() -> None:
    assert fence.promised(fence.promise("a-0", 60.0, {"terminationGracePeriodSeconds": 5})) == ("a-0", 65.0)
    assert fence.promised(fence.promise("a-0", 1.5, {})) == ("a-0", 32.0)
    for text in (None, "", "65", "a-0", "a-0 -1", "a-0 1e3", "a-0 ٣", f"a-0 {'9' * 30}"):
        assert fence.promised(text) is None
    assert fence.kept("65") == 65.0
    assert fence.kept("true") is None


def test_a_renewal_that_is_seen_to_come_counts_from_now() -> None:
    first = fence.see(None, lease("1", written=NOON), 100.0, NOON)
    again = fence.see(first, lease("1", written=NOON), 150.0, NOON + timedelta(seconds=50))
    assert again == first
    assert again.left(150.0) == 10.0
    later = NOON + timedelta(seconds=50)
    assert fence.see(again, lease("2", written=later), 150.0, later).left(150.0) == TERM


def test_whoever_begins_counts_from_when_it_was_written_by_the_api_servers_own_clock() -> None:
    seen = fence.see(None, lease("1", written=NOON), 1000.0, NOON + timedelta(seconds=45))
    assert seen.left(1000.0) == TERM - 45
    assert fence.see(None, lease("1", written=NOON), 1000.0, NOON + timedelta(hours=1)).left(1000.0) == 0.0


def test_where_nobody_tells_when_it_was_written_another_renewal_has_to_follow_soon() -> None:
    seen = fence.see(None, lease("1"), 1000.0, NOON)
    assert seen.left(1000.0) == fence.UNKNOWN_SECONDS
    assert fence.see(seen, lease("2"), 1010.0, NOON).left(1010.0) == TERM
    assert fence.see(None, None, 1000.0, NOON).left(1000.0) == fence.UNKNOWN_SECONDS
    assert fence.see(None, lease("1", term=4), 1000.0, NOON).left(1000.0) == 4.0


def test_a_lease_that_is_deleted_is_not_renewed() -> None:
    seen = fence.see(None, lease("1", written=NOON), 100.0, NOON)
    assert fence.see(seen, None, 130.0, NOON) == seen


def test_a_watch_that_comes_late_gives_no_more_time() -> None:
    seen = fence.see(None, lease("1", written=NOON), 100.0, NOON)
    late = fence.see(seen, lease("2", written=NOON + timedelta(seconds=10)), 150.0, NOON + timedelta(seconds=50))
    assert late.left(150.0) == TERM - 40


@pytest.mark.parametrize("jump", [-7200.0, -30.0, 30.0, 7200.0])
def test_a_clock_that_jumps_costs_no_more_than_one_renewal(jump: float) -> None:
    seen, now, server = fence.see(None, lease("0", written=NOON), 0.0, NOON), 0.0, NOON
    for number in range(1, 20):
        now, server = now + 10.0, server + timedelta(seconds=10)
        wrong = server + timedelta(seconds=jump if number > 5 else 0)
        seen = fence.see(seen, lease(str(number), written=server), now, wrong)
        assert TERM - 10.0 <= seen.left(now) <= TERM


@pytest.mark.parametrize("text", ["soon", None, 5])
def test_a_time_that_cannot_be_read_is_none(text: Any) -> None:
    entry = {"time": text, "fieldsV1": {"f:spec": {"f:renewTime": {}}}}
    assert fence.age({"managedFields": [entry]}, NOON) is None


def test_it_is_renewed_often_enough() -> None:
    assert fence.interval(60.0) == 10.0
    assert fence.interval(6.0) == 1.0


DELAYS = (0.0, 3.0, 20.0)
DEATHS = (None, 5.0, 59.0)


@pytest.mark.parametrize(("delay", "death", "away"), list(product(DELAYS, DEATHS, (0.0, 8.0))))
def test_the_other_starts_after_the_one_has_ended(delay: float, death: float | None, away: float) -> None:
    """A renewal arrives late, and an agent dies and its successor has not observed the renewal."""
    sent = 1000.0
    arrives = sent + delay
    promised = fence.promised(fence.promise("a", TERM, {"terminationGracePeriodSeconds": int(GRACE)}))
    assert promised is not None
    starts = sent + fence.left(promised.seconds, sent, MARGIN, sent)
    seen = Seen("9", arrives, arrives, TERM)
    looks = arrives
    if death is not None:
        looks = arrives + death + away
        passed = timedelta(seconds=looks - arrives)
        # The successor's monotonic clock belongs to another machine, with any offset.
        seen = fence.see(None, lease("9", written=NOON), 5.0, NOON + passed)
        stops = looks + seen.left(5.0)
    else:
        stops = looks + seen.left(looks)
    assert stops + GRACE <= starts


def test_a_promise_includes_the_grace_that_a_webhook_gave_the_delegate() -> None:
    spec, delegate = {"terminationGracePeriodSeconds": 30}, {"terminationGracePeriodSeconds": 300}
    assert fence.promise("a", 60.0, spec, delegate) == "a 360"
    assert fence.promise("a", 60.0, delegate, spec) == "a 360"


@pytest.mark.parametrize(
    ("own", "ends_in", "wanted"),
    [
        pytest.param(30, None, fence.Ending(None), id="its own grace is what was promised"),
        pytest.param(300, None, fence.Ending(30), id="a webhook has made it longer since"),
        pytest.param(30, 20.0, None, id="it ends in time"),
        pytest.param(30, 500.0, fence.Ending(30), id="a user deleted it with a longer grace"),
    ],
)
def test_a_delegate_ends_within_the_grace_that_was_promised(
    own: int, ends_in: float | None, wanted: fence.Ending | None
) -> None:
    spec = {"terminationGracePeriodSeconds": 30}
    allowed = fence.promised_grace("a 90", 60.0, spec)
    assert fence.ending(allowed, own, ends_in) == wanted


def test_a_delegate_of_which_nothing_was_promised_keeps_its_grace() -> None:
    allowed = fence.promised_grace(None, 60.0, {})
    assert fence.ending(allowed, 300, None) == fence.Ending(None)
    assert fence.ending(allowed, 300, 290.0) is None


def test_no_grace_is_cut_to_nothing() -> None:
    """With a grace period of 0 the API server removes the pod while its containers may still run."""
    assert fence.ending(0, 30, None) == fence.Ending(1)
