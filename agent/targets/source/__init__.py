"""Grants rights to source clusters: a service account and bindings for every Source, in the target."""

from agent.targets.source.controller import SourceController

__all__ = ["SourceController"]
