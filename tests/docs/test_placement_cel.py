"""The page about CEL in Placements: its expressions are valid, and it covers every function."""

import re

import msgspec
import pytest
import yaml

from agent.ranking.placing.celexpr import compile_expression
from agent.ranking.placing.celfunctions import FUNCTIONS, LACKING
from tests.docs.pages import DOCS, blocks

FILE = DOCS / "reference/placement-cel.md"
PAGE = FILE.read_text()


def test_the_placement_of_the_page_takes_a_cluster_that_it_describes() -> None:
    (text,) = (block.text for block in blocks(FILE, "yaml"))
    (predicate,) = yaml.safe_load(text)["spec"]["predicates"]
    cluster = msgspec.json.encode(
        {"metadata": {"name": "eu", "labels": {"env": "prod"}}, "status": {"version": {"kubernetes": "v1.31.2"}}}
    )
    for expression in predicate["requiredClusterSelector"]["celSelector"]["celExpressions"]:
        program = compile_expression(expression)
        assert program.matches(cluster, {"resource-usage-score": (("cpuNodeAvailable", 52),)})


@pytest.mark.parametrize("name", sorted({each.name for each in FUNCTIONS}))
def test_every_function_is_on_the_page(name: str) -> None:
    assert re.search(rf"`{re.escape(name)}[`(]", PAGE)


def test_what_is_lacking_is_on_the_page() -> None:
    assert all(f"`{name}`" in PAGE for name in LACKING - {"isURL", "format"})
