"""Storage of the bundle: a Secret that all replicas share; any replica creates or renews it.

Emptying the Secret asks for a new CA; so does deleting it, if the process may create it. Service is not interrupted:
the earlier CA stays trusted while replicas serve under it.
"""

import base64
import binascii
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent.api.kinds import SECRETS
from agent.base import certificate_bundle as bundles
from agent.base.certificate_bundle import Bundle, Lifetimes
from agent.base.clock import Clock
from agent.kube.client import Client
from agent.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound

ATTEMPTS = 5

_log = logging.getLogger(__name__)


class UnusableSecret(Exception):
    """The Secret holds data of another program, or does not exist and this process may not create it."""


class Rotation:
    """Reads the Secret, renews its content when due, and caches it."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        secret: str,
        names: Sequence[str],
        lifetimes: Lifetimes,
        clock: Clock,
        *,
        keeper: str,
        remedy: str,
        told: Callable[[], bytes] = lambda: b"",
        is_awaited: Callable[[bytes], bool] = lambda trusted: False,
    ) -> None:
        """Initialise.

        :param keeper: owner that is recorded on the Secret
        :param remedy: message if the Secret has another owner
        :param told: CA certificates that clients currently trust (PEM); a new CA after a start keeps them
        :param is_awaited: returns True while clients lack some of these CA certificates (PEM)
        """
        self._client = client
        self._namespace = namespace
        self._secret = secret
        self._names = tuple(names)
        self._lifetimes = lifetimes
        self._clock = clock
        self._labels = {"app.kubernetes.io/managed-by": keeper}
        self._remedy = remedy
        self._told = told
        self._is_awaited = is_awaited
        self.bundle: Bundle | None = None  #: as last read or written; None before the first refresh

    async def refresh(self) -> Bundle:
        """Return the bundle to serve now: from the Secret, after due changes have been written to it.

        Raises UnusableSecret, or KubeError (Conflict if other replicas keep writing first).
        """
        for attempt in range(ATTEMPTS):
            try:
                self.bundle = await self._turn()
            except (AlreadyExists, Conflict):
                # Another replica wrote first. Its bundle is as good: read it.
                if attempt == ATTEMPTS - 1:
                    raise
            else:
                return self.bundle
        raise AssertionError("unreachable")

    async def _turn(self) -> Bundle:
        try:
            secret = await self._client.get(SECRETS, self._secret, self._namespace)
        except NotFound:
            return await self._create()
        found = self._read(secret)
        emptied = found is None and not secret.get("data")
        want = self._advance(found or (self._successor() if emptied else self.bundle))
        if want != found:
            await self._write(secret, want)
        return want

    def _read(self, secret: Mapping[str, Any]) -> Bundle | None:
        data: Mapping[str, str] = secret.get("data") or {}
        if not data:
            return None
        foreign = sorted(data.keys() - set(bundles.FIELDS))
        if foreign:
            raise UnusableSecret(
                f"Secret {self._namespace}/{self._secret} also holds {', '.join(foreign)}, which is not ours:"
                f" {self._remedy}"
            )
        try:
            return bundles.parse({key: base64.b64decode(value) for key, value in data.items()})
        except (ValueError, binascii.Error) as error:
            _log.warning("Secret %s/%s is replaced: %s", self._namespace, self._secret, error)
            return None

    def _advance(self, bundle: Bundle | None) -> Bundle:
        now = self._clock.now()
        if bundle is None:
            found = bundles.new(self._secret, self._names, now, self._lifetimes)
            return bundles.trusting(found, self._told(), now)
        return bundles.advance(bundle, self._secret, self._names, now, self._lifetimes, self._is_awaited)

    async def _create(self) -> Bundle:
        want = self._advance(self._successor())
        secret = {
            "apiVersion": "v1",
            "kind": SECRETS.name,
            "metadata": {"name": self._secret, "namespace": self._namespace, "labels": self._labels},
            "type": "Opaque",
            "data": _encoded(want),
        }
        try:
            await self._client.create(SECRETS, secret)
        except Forbidden as error:
            raise UnusableSecret(
                f"Secret {self._namespace}/{self._secret} does not exist, and this process may not create it: run helm"
                f" upgrade, or kubectl -n {self._namespace} create secret generic {self._secret}"
            ) from error
        _log.info("made Secret %s/%s with a new CA", self._namespace, self._secret)
        return want

    def _successor(self) -> Bundle | None:
        """Return the present bundle with a new CA, None if there is no bundle yet."""
        if self.bundle is None:
            return None
        return bundles.with_new_ca(self.bundle, self._secret, self._clock.now(), self._lifetimes)

    async def _write(self, secret: Mapping[str, Any], want: Bundle) -> None:
        version = secret["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version}, "data": _encoded(want)}
        await self._client.patch(SECRETS, self._secret, patch, self._namespace)
        _log.info("renewed Secret %s/%s", self._namespace, self._secret)


def _encoded(bundle: Bundle) -> dict[str, str]:
    return {key: base64.b64encode(value).decode() for key, value in bundle.data().items()}
