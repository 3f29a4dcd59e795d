"""Proxy pods of targets that do not answer are not ready, where Services send traffic to them."""

from agent.services.unready_pods.controller import UnreadyPodsController

__all__ = ["UnreadyPodsController"]
