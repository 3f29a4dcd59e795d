"""The pages about Placements list all existing fields, and their examples can be parsed."""

import yaml

from agent.api.crds.placement import placement
from agent.api.names import lifecycle, ocm
from agent.model import promscore
from agent.ranking.placing.celexpr import scores_named
from agent.ranking.placing.spec import BUILT_IN
from agent.ranking.placing.usage_scores import RESOURCES
from tests.docs.pages import DOCS, blocks, quoted, section, tables

PAGE = DOCS / "reference/placements.md"


def first_cells(heading: str, table: int = 0) -> set[str]:
    """Return the texts in backticks in the first column of a section's table."""
    return {text for row in tables(section(PAGE, heading))[table][1:] for text in quoted(row[0])}


def test_every_field_of_a_placement_is_told() -> None:
    fields = set(placement()["properties"]["spec"]["properties"])
    assert {text.partition(".")[0].partition("[")[0] for text in first_cells("Fields of a Placement")} == fields


def test_every_prioritizer_is_told() -> None:
    cells = first_cells("Prioritizers and scores")
    assert {text.removeprefix("builtIn: ") for text in cells} >= set(BUILT_IN)


def test_the_taints_that_we_set_are_told() -> None:
    ours = {ocm.TAINT_UNAVAILABLE, ocm.TAINT_UNREACHABLE, lifecycle.TAINT_RETIRING}
    assert first_cells("Taints of clusters") == ours | {"node.kubernetes.io/unschedulable"}


def test_scores_of_usage_are_told() -> None:
    both = ("NodeAvailable", "ClusterAvailable")
    names = {f"{short}{kind}" for short in RESOURCES for kind in both}
    names |= {
        f"{short}{kind}"
        for short in ("cpu", "mem")
        for kind in ("Available", "NodeRatio", "ClusterRatio", "ClusterIdle")
    }
    assert first_cells("Scores of usage") == names


def test_the_values_for_prometheus_are_read() -> None:
    values, cel = (
        yaml.safe_load(block.text) for page in (DOCS / "guides/scores.md", PAGE) for block in blocks(page, "yaml")
    )
    (score,) = promscore.read(yaml.safe_dump(values["agent"]["prometheusScores"]))
    assert (score.resource, score.name) == ("service-health", "errors")
    (predicate,) = cel["predicates"]
    (expression,) = predicate["requiredClusterSelector"]["celSelector"]["celExpressions"]
    assert scores_named(expression) == {"price"}
