"""Validation of a Source or ClusterSource beyond its schema: accounts, granted features, and policy."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from agent.api.roles import FEATURES, NAMED_FEATURES, OPTIONAL_FEATURES
from agent.model import podpolicy

DEFAULT_ACCOUNT = "default"
_USER_OF_ACCOUNT = "system:serviceaccount:"


class Flaw(NamedTuple):
    """A field of a spec and its problem."""

    field: str
    reason: str


def flaw(spec: Mapping[str, Any], *, namespaced: bool) -> Flaw | None:
    """Return the problem of a Source's or ClusterSource's spec; None if it is valid."""
    account = spec.get("serviceAccountName") if namespaced else _account(spec)
    if isinstance(account, Flaw):
        return account
    if spec.get("userName") or account:
        return next(iter(policy_flaws(spec)), None)
    field = "serviceAccountName" if namespaced else "serviceAccount"
    return Flaw("spec", f"names nobody who may run pods here: set userName, {field}, or both")


def accounts(spec: Mapping[str, Any], namespace: str) -> list[tuple[str, str]]:
    """Namespaces and names of the service accounts of a Source, including one that `userName` names.

    :param namespace: of the Source; empty for a ClusterSource
    """
    account = spec.get("serviceAccount")
    account = account if isinstance(account, Mapping) else {}
    own = (namespace, spec.get("serviceAccountName")) if namespace else (account.get("namespace"), account.get("name"))
    pairs = (own, named_account(spec) or ("", ""))
    texts = [(place, name) for place, name in pairs if isinstance(place, str) and isinstance(name, str)]
    return [each for each in dict.fromkeys(texts) if all(each)]


def named_account(spec: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return namespace and name of the service account that `userName` stands for; None for any other user."""
    user = spec.get("userName")
    if not isinstance(user, str) or not user.startswith(_USER_OF_ACCOUNT):
        return None
    namespace, _, name = user.removeprefix(_USER_OF_ACCOUNT).partition(":")
    return (namespace, name)


def policy_flaws(spec: Mapping[str, Any]) -> list[Flaw]:
    """Return the problems of `spec.policy`."""
    if spec.get("policy") is None:
        return []
    try:
        return [Flaw(field, reason) for field, reason in podpolicy.flaws(podpolicy.read(spec["policy"]))]
    except podpolicy.InvalidPolicy as error:
        return [Flaw("spec.policy", str(error).removeprefix("spec.policy "))]


def features(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Return features beyond Admiralty's rules that a Source is granted; most of them if `spec.allow` is not set."""
    allowed = spec.get("allow")
    allowed = [name for name in OPTIONAL_FEATURES if name not in NAMED_FEATURES] if allowed is None else allowed
    return tuple(name for name in FEATURES if name not in OPTIONAL_FEATURES or name in allowed)


def advice(spec: Mapping[str, Any], *, namespaced: bool) -> str:
    """Return a warning about a valid but unwise spec, with the remedy; empty for none."""
    field = "serviceAccountName" if namespaced else "serviceAccount.name"
    account = spec.get("serviceAccountName") if namespaced else (spec.get("serviceAccount") or {}).get("name")
    if account != DEFAULT_ACCOUNT and (named_account(spec) or ("", ""))[1] == DEFAULT_ACCOUNT:
        field, account = "userName", DEFAULT_ACCOUNT
    if account != DEFAULT_ACCOUNT:
        return ""
    return (
        f"spec.{field} is {DEFAULT_ACCOUNT}, the account of every pod there that names none, so that all of them have"
        " the source's rights: name another one, and join the source again"
    )


def _account(spec: Mapping[str, Any]) -> Flaw | bool:
    """Return whether a ClusterSource has a service account, or the problem if it is incomplete."""
    account = spec.get("serviceAccount")
    account = account if isinstance(account, Mapping) else {}
    missing = [field for field in ("name", "namespace") if not account.get(field)]
    if len(missing) == 1:
        reason = "is missing: a service account is known by its name and its namespace"
        return Flaw(f"spec.serviceAccount.{missing[0]}", reason)
    return not missing
