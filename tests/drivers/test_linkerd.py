"""Clusters that the driver `linkerd` has cached."""

from types import SimpleNamespace
from typing import Any

import pytest

from agent.api.kinds import Kind
from agent.drivers.driver import LOCAL, Place
from agent.drivers.linkerd import Linkerd
from agent.kube.errors import Forbidden, KubeError, NotFound


def test_links_of_a_cluster_that_may_be_another_one_are_read_anew() -> None:
    sharing: Any = SimpleNamespace(deps=None)
    driver = Linkerd(sharing)
    driver._links = {"gone": (0.0, []), "there": (0.0, [])}
    driver.forget_cluster("gone")
    assert driver._links.keys() == {"there"}


class Refusing:
    """Stub of a cluster's API whose Links cannot be read."""

    def __init__(self, error: KubeError) -> None:
        self.asked = 0
        self._error = error

    async def list(self, kind: Kind) -> list[dict[str, Any]]:
        self.asked += 1
        raise self._error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (Forbidden(403, "Forbidden", "no"), "may not be looked at"),
        (NotFound(404, "NotFound", "no"), "are served there"),
    ],
)
async def test_a_cluster_that_does_not_let_its_links_be_read_is_asked_once_for_all_sources(
    error: KubeError, message: str
) -> None:
    sharing: Any = SimpleNamespace(deps=None)
    driver, refusing = Linkerd(sharing), Refusing(error)
    port: Any = refusing
    for source in (LOCAL, "eu", "de"):
        found = await driver.connected(Place("us", port, ("shop", "web"), "u"), source)
        assert (found.status, found.reason) == ("Unknown", "Unverified")
        assert message in found.message
    assert refusing.asked == 1
