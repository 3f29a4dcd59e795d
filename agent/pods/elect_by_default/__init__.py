"""Labels for the webhook's namespace selector: namespaces that elect all of their pods."""

from agent.pods.elect_by_default.controller import ElectByDefaultRoom

__all__ = ["ElectByDefaultRoom"]
