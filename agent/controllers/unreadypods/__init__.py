"""Proxy pods of targets that do not answer are not ready, where Services send traffic to them."""

from agent.controllers.unreadypods.controller import UnreadyPodsRoom

__all__ = ["UnreadyPodsRoom"]
