"""Time until a replaced driver's objects are removed, with a simulated clock."""

import pytest

from agent.drivers.handover import KEEP_SECONDS, SETTLE_SECONDS, Handover, HandoverStage, Route

ROUTE = Route("", "admiralty-shop-eu", ("shop", "web"))


def stages(*looks: tuple[float, bool]) -> list[HandoverStage]:
    """Return the stage at each time, given whether the new driver routes traffic then."""
    handover = Handover()
    return [handover.stage(ROUTE, now, new_leads=leads) for now, leads in looks]


def test_it_stays_until_whoever_sends_traffic_knows_the_new_way() -> None:
    found = stages((0, False), (5, True), (5 + SETTLE_SECONDS - 0.1, True), (5 + SETTLE_SECONDS, True))
    assert found == [HandoverStage.KEEP, HandoverStage.KEEP, HandoverStage.KEEP, HandoverStage.DRAIN]


def test_a_new_way_that_is_lost_again_does_not_count() -> None:
    found = stages(
        (0, True), (2, False), (SETTLE_SECONDS, True), (SETTLE_SECONDS + 2, True), (2 * SETTLE_SECONDS, True)
    )
    assert found == [*[HandoverStage.KEEP] * 4, HandoverStage.DRAIN]


@pytest.mark.parametrize("leads", [True, False])
def test_it_ends_whether_the_new_driver_leads_there_or_not(leads: bool) -> None:
    found = stages((0, leads), (KEEP_SECONDS - SETTLE_SECONDS, leads), (KEEP_SECONDS, leads))
    assert found == [HandoverStage.KEEP, HandoverStage.DRAIN, HandoverStage.REMOVE]


def test_it_begins_anew_once_nothing_was_left() -> None:
    handover = Handover()
    assert handover.stage(ROUTE, 0, new_leads=False) is HandoverStage.KEEP
    assert handover.stage(ROUTE, KEEP_SECONDS, new_leads=False) is HandoverStage.REMOVE
    handover.end(ROUTE)
    assert handover.stage(ROUTE, KEEP_SECONDS, new_leads=False) is HandoverStage.KEEP


def test_both_clusters_look_again_while_it_is_under_way_and_a_little_longer() -> None:
    handover = Handover()
    handover.stage(ROUTE, 0, new_leads=False)
    for node in (ROUTE.consumer, ROUTE.source):
        assert handover.concerns(node, "shop", 1)
        assert handover.concerns(node, "shop", KEEP_SECONDS + 1)
        assert not handover.concerns(node, "shop", KEEP_SECONDS + SETTLE_SECONDS)
        assert not handover.concerns(node, "other", 1)
    assert not handover.concerns("admiralty-shop-us", "shop", 1)


def test_of_services_that_are_no_more_nothing_is_kept() -> None:
    handover = Handover()
    for number in range(100):
        handover.stage(ROUTE._replace(service=("shop", f"web-{number}")), number * KEEP_SECONDS, new_leads=True)
    assert len(handover._began) == len(handover._leads) <= 3
