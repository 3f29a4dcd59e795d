"""Contents of targets, published so that the webhook can warn about missing objects."""

from agent.targets.inventory.controller import InventoryController

__all__ = ["InventoryController"]
