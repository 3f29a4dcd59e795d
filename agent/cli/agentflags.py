"""Flags of the agent: a command that says what the agent would do has to be told of those that bear on it."""

from collections.abc import Sequence
from typing import Annotated

import typer

from agent.settings import InvalidSetting, Settings, parse

AgentFlag = Annotated[
    list[str], typer.Option(help="Flag of the agent that bears on it, such as --agent-flag=--allowed-targets=us.")
]


def settings_of(flags: Sequence[str]) -> Settings:
    """The settings of an agent with these flags. Raises BadParameter where there is none such."""
    try:
        return parse(flags)
    except InvalidSetting as error:
        raise typer.BadParameter(str(error)) from None
