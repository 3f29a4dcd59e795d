"""Features that virtual nodes declare."""

import pytest

from agent.api.names.nodes import ANNOTATION_DECLARED_FEATURES
from agent.model import nodefeatures
from agent.model.knownnodes import KnownNodes


def test_the_common_features_are_those_of_all_nodes() -> None:
    known = KnownNodes()
    for name, features in (("a", ["X", "Y"]), ("b", ["Y", "Z"])):
        known.put({"metadata": {"name": name}, "status": {"declaredFeatures": features}})
    assert known.features() == ("Y",)
    known.put({"metadata": {"name": "c"}})
    assert known.features() == ()
    assert KnownNodes().features() == ()


def test_features_come_through_a_summary() -> None:
    assert nodefeatures.write(()) == {}
    assert nodefeatures.read(nodefeatures.write(("B", "A"))) == ["A", "B"]


@pytest.mark.parametrize("text", ["", "nonsense", '{"A": 1}', "[1]", '["a b", "\u00e9"]'])
def test_what_no_agent_of_ours_has_written_declares_nothing(text: str) -> None:
    assert nodefeatures.read({ANNOTATION_DECLARED_FEATURES: text}) == []
