"""Endpoints of shared Services, published in every cluster that shares them."""

from agent.controllers.endpoints.controller import EndpointsRoom
from agent.controllers.endpoints.networkdriver import NetworkDriverRoom

__all__ = ["EndpointsRoom", "NetworkDriverRoom"]
