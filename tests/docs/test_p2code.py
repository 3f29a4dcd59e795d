"""The pages about applications: the example is valid, and the states match the code."""

import re

import yaml

from agent.model.p2code.check import Application, World, check, draft
from agent.model.p2code.verdicts import STATES
from tests.docs.pages import DOCS, quoted, section, tables

PAGE = DOCS / "guides/applications.md"


def test_the_example_is_an_application_of_one_bundle() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    spec = yaml.safe_load(block)["spec"]
    found = check(draft(spec, "example", "global"), World({"edge": ("c",)}, ("edge",), ("shop",)))
    assert isinstance(found, Application)
    (bundle,) = found.bundling.bundles
    assert [each.kind for each in bundle.manifests] == ["Deployment", "ConfigMap"]
    assert bundle.absent == found.bundling.orphans == ()


def test_every_state_is_explained_and_no_other() -> None:
    (table,) = tables(section(DOCS / "reference/applications.md", "States and reasons"))
    assert {quoted(row[0])[0] for row in table[1:]} == set(STATES)
