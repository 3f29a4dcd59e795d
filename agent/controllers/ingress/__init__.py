"""Ingresses in front of shared Services have copies where these have."""

from agent.controllers.ingress.controller import IngressRoom
from agent.controllers.ingress.secrets import IngressSecretRoom

__all__ = ["IngressRoom", "IngressSecretRoom"]
