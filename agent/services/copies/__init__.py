"""Services that several clusters share have copies in all of them."""

from agent.services.copies.controller import GlobalServices

__all__ = ["GlobalServices"]
