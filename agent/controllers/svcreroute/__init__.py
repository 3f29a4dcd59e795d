"""Services that select proxy pods send their traffic to the delegates, wherever these run."""

from agent.controllers.svcreroute.controller import ServiceRerouteRoom

__all__ = ["ServiceRerouteRoom"]
