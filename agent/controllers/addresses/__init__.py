"""Addresses of copied load balancers and Ingresses come home."""

from agent.controllers.addresses.controller import AddressesRoom

__all__ = ["AddressesRoom"]
