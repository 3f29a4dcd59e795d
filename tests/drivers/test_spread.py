"""Targets that have a copy of a Service."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from agent.api.kinds import SERVICES
from agent.drivers.spread import Spread
from agent.kube.store import Object
from tests.kube.objects import raw

if TYPE_CHECKING:
    from agent.kube.informer import Informer

Changed = Callable[[Object | None, Object | None], None]
WEB = ("team", "web")


class Copies:
    """Stub of a target that reports its copies."""

    def __init__(self) -> None:
        self.tell: Changed | None = None

    def subscribe(self, changed: Changed) -> Callable[[], None]:
        self.tell = changed
        return self._stop

    def _stop(self) -> None:
        self.tell = None


def attached(spread: Spread, node: str) -> Any:
    copies = Copies()
    spread.attach(node, cast("Informer", copies))
    return copies


def copy(uid: str) -> Object:
    return Object(SERVICES, raw("web", namespace="team", uid=uid))


def test_each_cluster_counts_once_however_many_targets_lead_to_it() -> None:
    spread = Spread()
    us, eu, twin = (attached(spread, node) for node in ("us", "eu", "also-eu"))
    assert not spread.has(WEB)
    us.tell(None, copy("1"))
    eu.tell(None, copy("2"))
    assert spread.firsts(WEB) == ["eu", "us"]
    assert [list(spread.services(each)) for each in ("", "team", "other")] == [[WEB], [WEB], []]
    twin.tell(None, copy("2"))
    assert spread.firsts(WEB) == ["also-eu", "us"]
    assert spread.first(WEB, "2") == "also-eu"
    assert spread.first(WEB, "3") == ""
    spread.detach("also-eu")
    assert twin.tell is None
    assert spread.firsts(WEB) == ["eu", "us"]


def test_a_copy_that_is_made_anew_counts_by_what_it_is_now() -> None:
    spread = Spread()
    eu, twin = attached(spread, "eu"), attached(spread, "twin")
    for target in (eu, twin):
        target.tell(None, copy("1"))
    eu.tell(copy("1"), copy("2"))
    assert spread.firsts(WEB) == ["eu", "twin"]
    twin.tell(copy("1"), copy("2"))
    assert spread.firsts(WEB) == ["eu"]
    eu.tell(copy("2"), copy("2"))
    for target in (eu, twin):
        target.tell(copy("2"), None)
    assert not spread.has(WEB)
    assert [list(spread.services(each)) for each in ("", "team")] == [[], []]
    eu.tell(None, copy("3"))
    spread.attach("eu", cast("Informer", Copies()))
    assert not spread.has(WEB), "what another connection shows has to be told again"
