"""The messages that the troubleshooting page quotes exist in the code."""

import pytest

from agent.clusters.health.agent_health import AgentState
from agent.clusters.target import State
from tests.docs import source
from tests.docs.pages import DOCS, quoted, section, tables

PAGE = DOCS / "guides/troubleshooting.md"
QUOTES = [text for table in tables(PAGE.read_text()) for row in table[1:] for cell in row[:-1] for text in quoted(cell)]
_LEAST = 4


@pytest.mark.parametrize("quote", QUOTES)
def test_a_quoted_text_is_one_that_the_code_writes(quote: str) -> None:
    parts = [part.strip(" ,:()") for part in quote.split("…")]
    assert any(len(part) >= _LEAST for part in parts)
    for part in parts:
        assert part in source.texts()


def test_every_state_of_a_target_that_is_not_ready_has_a_remedy() -> None:
    states = {*State, *AgentState} - {State.READY, AgentState.READY, AgentState.UNKNOWN}
    first, *_ = tables(section(PAGE, "A Target is not Ready"))
    documented = {row[0] for row in first[1:]}
    assert {str(state) for state in states} <= documented
    assert documented - states == {
        "InvalidSpec",
        "SecretNotFound",
        "SecretUnreadable",
        "KeyNotFound",
        "InvalidKubeconfig",
    }
