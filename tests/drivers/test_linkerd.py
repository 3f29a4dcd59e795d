"""What driver `linkerd` remembers of clusters."""

from types import SimpleNamespace
from typing import Any

from agent.drivers.linkerd import Linkerd


def test_links_of_a_cluster_that_may_be_another_one_are_read_anew() -> None:
    sharing: Any = SimpleNamespace(deps=None)
    driver = Linkerd(sharing)
    driver._links = {"gone": (0.0, []), "there": (0.0, [])}
    driver.forget_cluster("gone")
    assert driver._links.keys() == {"there"}
