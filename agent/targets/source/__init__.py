"""Let source clusters in: a Source becomes a service account and the bindings that its cluster needs here."""

from agent.targets.source.controller import SourceController

__all__ = ["SourceController"]
