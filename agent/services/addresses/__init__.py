"""Addresses of copied load balancers and Ingresses, copied to their originals."""

from agent.services.addresses.controller import AddressesController

__all__ = ["AddressesController"]
