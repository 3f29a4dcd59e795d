"""Time until a driver's objects of a Service are removed after another one took over, with a simulated clock."""

import pytest

from agent.drivers.driver import Place
from agent.drivers.handover import KEEP_SECONDS, follows
from agent.drivers.takedown import Takedown

SKUPPER, NEW = "Skupper", {"EndpointSlices"}
PLACE = Place("node", None, ("shop", "web"), "uid")  # type: ignore[arg-type]


def had(*reasons: str) -> Takedown:
    found = Takedown()
    for reason in reasons:
        found.has(PLACE, reason)
    return found


def test_it_has_its_time_and_then_is_over() -> None:
    takedown = had(SKUPPER)
    found = [takedown.left(PLACE, SKUPPER, NEW, now) for now in (5.0, 15.0, 4.0 + KEEP_SECONDS, 5.0 + KEEP_SECONDS)]
    assert found == [KEEP_SECONDS, KEEP_SECONDS - 10, 1.0, 0.0]
    assert takedown.left(PLACE, SKUPPER, NEW, 6.0 + KEEP_SECONDS) == 0.0
    assert takedown._had == {}


def test_what_is_wanted_again_begins_anew() -> None:
    takedown = had(SKUPPER)
    takedown.left(PLACE, SKUPPER, NEW, 0.0)
    takedown.has(PLACE, SKUPPER)
    assert takedown.left(PLACE, SKUPPER, NEW, 20.0) == KEEP_SECONDS


@pytest.mark.parametrize("wanted", [set(), {"Off"}])
def test_where_nobody_takes_over_it_goes_at_once(wanted: set[str]) -> None:
    takedown = had(SKUPPER)
    assert takedown.left(PLACE, SKUPPER, wanted, 0.0) == 0.0
    # A later driver does not bring it back.
    assert takedown.left(PLACE, SKUPPER, NEW, 1.0) == 0.0


@pytest.mark.parametrize("reason", ["EndpointSlices", "Gateway", "Off", "MCS"])
def test_what_was_not_there_or_sees_to_it_itself_has_none(reason: str) -> None:
    takedown = had(*{reason} - {"MCS"})
    assert takedown.left(PLACE, reason, {"Linkerd"}, 0.0) == 0.0


def test_nothing_is_kept_of_services_and_targets_that_are_no_more() -> None:
    takedown = had(SKUPPER)
    takedown.forget_service("other", PLACE.service)
    assert takedown._had
    takedown.forget_service("node", PLACE.service)
    assert takedown._had == {}
    takedown = had(SKUPPER)
    takedown.forget_cluster("other")
    assert takedown._had
    takedown.forget_cluster("node")
    assert takedown._had == {}


def test_who_takes_over_from_whom() -> None:
    assert follows("Gateway", "EndpointSlices")
    assert follows("external/sdwan", "Gateway")
    assert not any(follows(reason, "Gateway") for reason in ("", "Gateway", "Off"))
