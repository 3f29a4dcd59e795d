"""Configuration of the stock kube-scheduler that reserves nodes for candidates (mode `reserve`). Pure."""

from typing import Any

from agent.api.names import SCHEDULER_CANDIDATE

HTTP_TIMEOUT = "300s"
"""Longer than any hold: a bind that the scheduler gives up is no reservation any more."""
INITIAL_BACKOFF_SECONDS = 1
MAX_BACKOFF_SECONDS = 5
"""A candidate whose bind was refused is tried again after 1, 2, 4, then every 5 s, and nothing wakes it earlier: this
is how long it takes at most until a new round of reservation, or an extender that is back, is noticed."""


def scheduler_configuration(kubeconfig: str, extender_url: str) -> dict[str, Any]:
    """KubeSchedulerConfiguration with one profile and an extender that only binds."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig, "qps": 1000, "burst": 2000},
        "leaderElection": {"leaderElect": False},
        "podInitialBackoffSeconds": INITIAL_BACKOFF_SECONDS,
        "podMaxBackoffSeconds": MAX_BACKOFF_SECONDS,
        "profiles": [{"schedulerName": SCHEDULER_CANDIDATE}],
        "extenders": [
            {"urlPrefix": extender_url, "bindVerb": "bind", "httpTimeout": HTTP_TIMEOUT, "ignorable": False},
        ],
    }
