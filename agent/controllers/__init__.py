"""The rooms of the agent, all of them, in one list. Rooms do not import each other: they meet on API objects."""

from typing import Any

from agent.controllers.chaperon.controller import Chaperon
from agent.controllers.deps import Deps
from agent.controllers.feedback.controller import Feedback
from agent.runtime.controller import Controller


def build(deps: Deps) -> list[Controller[Any]]:
    """Every room that these settings ask for."""
    return [
        Chaperon(deps),
        Feedback(deps),
    ]
