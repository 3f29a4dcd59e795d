"""Every shared Service has a ServiceLink, which tells who reaches whose endpoints, and why not."""

from agent.controllers.links.controller import ServiceLinksRoom

__all__ = ["ServiceLinksRoom"]
