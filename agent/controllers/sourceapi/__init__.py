"""Delegates that talk to the API of their source."""

from agent.controllers.sourceapi.absent import NoSourceApi
from agent.controllers.sourceapi.controller import SourceApiRoom

__all__ = ["NoSourceApi", "SourceApiRoom"]
