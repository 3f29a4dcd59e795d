"""Addresses of copied load balancers and Ingresses, copied to their originals."""

from agent.controllers.addresses.controller import AddressesRoom

__all__ = ["AddressesRoom"]
