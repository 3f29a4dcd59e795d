"""Delegates that talk to the API of their source."""

from agent.dependencies.source_api.absent import NoSourceApi
from agent.dependencies.source_api.controller import SourceApiController

__all__ = ["NoSourceApi", "SourceApiController"]
