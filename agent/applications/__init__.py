"""Whole applications of P2CODE's scheduler: a cluster is chosen for each bundle, and what is in it is applied here."""

from agent.applications.controller import P2CodeController

__all__ = ["P2CodeController"]
