"""Proxy pods of targets that do not answer become not ready, so that Services route no traffic to them."""

from agent.services.unready_pods.controller import UnreadyPodsController

__all__ = ["UnreadyPodsController"]
