"""Services that several clusters share have copies in all of them."""

from agent.controllers.globalsvc.controller import GlobalServices

__all__ = ["GlobalServices"]
