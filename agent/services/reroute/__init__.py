"""Services that select proxy pods send their traffic to the delegates, wherever these run."""

from agent.services.reroute.controller import ServiceRerouteController

__all__ = ["ServiceRerouteController"]
