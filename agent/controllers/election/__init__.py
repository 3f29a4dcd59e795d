"""Tell the webhook's namespace selector which namespaces elect all of their pods."""

from agent.controllers.election.controller import ElectionRoom

__all__ = ["ElectionRoom"]
