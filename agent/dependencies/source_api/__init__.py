"""Access of delegates to the source's API server."""

from agent.dependencies.source_api.absent import NoSourceApi
from agent.dependencies.source_api.controller import SourceApiController

__all__ = ["NoSourceApi", "SourceApiController"]
