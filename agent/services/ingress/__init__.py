"""Ingresses in front of shared Services, copied to the clusters of these."""

from agent.services.ingress.controller import IngressRoom
from agent.services.ingress.secrets import IngressSecretRoom

__all__ = ["IngressRoom", "IngressSecretRoom"]
