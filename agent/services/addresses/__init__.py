"""Addresses of copied load balancers and Ingresses, copied to their originals."""

from agent.services.addresses.controller import AddressesRoom

__all__ = ["AddressesRoom"]
