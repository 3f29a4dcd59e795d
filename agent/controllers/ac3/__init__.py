"""AC3's networks: the links of each become ServiceLinks, and what these tell comes back."""

from agent.controllers.ac3.controller import NetworksRoom

__all__ = ["NetworksRoom"]
