"""Ingresses in front of shared Services, copied to the clusters of these."""

from agent.controllers.ingress.controller import IngressRoom
from agent.controllers.ingress.secrets import IngressSecretRoom

__all__ = ["IngressRoom", "IngressSecretRoom"]
