"""Ingresses for shared Services, copied to the clusters of these Services."""

from agent.services.ingress.controller import IngressController
from agent.services.ingress.secrets import IngressSecretController

__all__ = ["IngressController", "IngressSecretController"]
