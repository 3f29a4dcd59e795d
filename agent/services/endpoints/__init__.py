"""Endpoints of shared Services, published in every cluster that shares them."""

from agent.services.endpoints.controller import EndpointsRoom
from agent.services.endpoints.networkdriver import NetworkDriverRoom

__all__ = ["EndpointsRoom", "NetworkDriverRoom"]
