"""Labels for the webhook's namespace selector: namespaces that elect all of their pods."""

from agent.pods.elect_by_default.controller import ElectByDefaultController

__all__ = ["ElectByDefaultController"]
