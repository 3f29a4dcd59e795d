"""Publish what targets have, for the webhook to warn of what they do not have."""

from agent.controllers.inventory.controller import InventoryRoom

__all__ = ["InventoryRoom"]
