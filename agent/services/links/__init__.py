"""ServiceLinks: one for every shared Service, with the reachability of endpoints and its reasons."""

from agent.services.links.controller import ServiceLinksController

__all__ = ["ServiceLinksController"]
