"""Service accounts that read, write and delete the objects of ManifestWorks: the agent's own rights do not count."""

from agent.clusters.deps import Deps
from agent.kube.client import Client


class Accounts:
    """Clients that impersonate an executor, or the account of ManifestWorks without one."""

    def __init__(self, deps: Deps) -> None:
        self._client = deps.local.client
        self._default = f"system:serviceaccount:{deps.home}:{deps.settings.works_account}"

    def client(self, executor: str) -> Client:
        """Return the client for a ManifestWork.

        :param executor: user name of its executor; empty without one
        """
        return self._client.as_user(executor or self._default)
