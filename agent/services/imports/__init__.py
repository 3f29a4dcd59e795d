"""Flotilla's implementation of the Multi-Cluster Services API: ServiceExports of all clusters become ServiceImports."""

from agent.services.imports.controller import ServiceImportsController

__all__ = ["ServiceImportsController"]
