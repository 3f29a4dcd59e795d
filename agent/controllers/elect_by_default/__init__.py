"""Tell the webhook's namespace selector which namespaces elect all of their pods."""

from agent.controllers.elect_by_default.controller import ElectByDefaultRoom

__all__ = ["ElectByDefaultRoom"]
