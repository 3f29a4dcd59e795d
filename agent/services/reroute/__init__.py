"""Services that select proxy pods route their traffic to the delegates, in whichever cluster these run."""

from agent.services.reroute.controller import ServiceRerouteController

__all__ = ["ServiceRerouteController"]
