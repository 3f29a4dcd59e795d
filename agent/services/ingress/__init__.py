"""Ingresses in front of shared Services, copied to the clusters of these."""

from agent.services.ingress.controller import IngressController
from agent.services.ingress.secrets import IngressSecretController

__all__ = ["IngressController", "IngressSecretController"]
