"""Endpoints of shared Services, published in every cluster that shares them."""

from agent.services.endpoints.controller import EndpointsController
from agent.services.endpoints.networkdriver import NetworkDriverController

__all__ = ["EndpointsController", "NetworkDriverController"]
