"""The agent's flags, for commands that predict its behaviour: pass them the flags that the agent runs with."""

from collections.abc import Sequence
from typing import Annotated

import typer

from agent.settings import InvalidSetting, Settings, parse

AgentFlag = Annotated[
    list[str], typer.Option(help="Flag of the agent that bears on it, such as --agent-flag=--allowed-targets=us.")
]


def settings_of(flags: Sequence[str]) -> Settings:
    """Return the settings of an agent with these flags. Raises BadParameter if a flag or its value is invalid."""
    try:
        return parse(flags)
    except InvalidSetting as error:
        raise typer.BadParameter(str(error)) from None
