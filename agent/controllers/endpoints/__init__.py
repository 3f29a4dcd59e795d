"""Endpoints of shared Services are known in every cluster that shares them."""

from agent.controllers.endpoints.choice import NetworkDriverRoom
from agent.controllers.endpoints.controller import EndpointsRoom

__all__ = ["EndpointsRoom", "NetworkDriverRoom"]
