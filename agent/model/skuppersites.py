"""Sites of Skupper and the links between them: what is made where a namespace asks for it, and what they tell. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.api import names
from agent.api.kinds import SITES, SKUPPER_GRANTS, SKUPPER_TOKENS
from agent.model.servicelinks import Finding
from agent.model.skupper import Raw, digest, headed, lacking

SITE = "flotilla"
_TOKEN_FIELDS = ("url", "code", "ca")


def site(namespace: str, *, reached: bool) -> Raw:
    """The Site of a namespace; one that is `reached` takes links of others."""
    return {**headed(SITES, SITE, namespace), "spec": {"linkAccess": "default"} if reached else {}}


def grant_name(cluster: str) -> str:
    """Name of the grant for one target, in this cluster alone; earlier versions gave it to the token, too."""
    return f"flotilla-{digest(cluster)}"


def token_name(cluster: str, source: str) -> str:
    """Name of a token: two sources may call a target the same, and use the same namespace there.

    :param source: UID of the cluster that the link leads to
    """
    return f"flotilla-{digest(f'{source}/{cluster}')}"


def grant(namespace: str, cluster: str) -> Raw:
    """What lets one cluster make a link to this one, once."""
    return {**headed(SKUPPER_GRANTS, grant_name(cluster), namespace), "spec": {"redemptionsAllowed": 1}}


def token(granted: Mapping[str, Any], namespace: str, name: str) -> Raw | None:
    """What that cluster makes the link of; None while the grant is not ready, as it tells."""
    said = granted.get("status") or {}
    if said.get("status") != "Ready" or not all(said.get(key) for key in _TOKEN_FIELDS):
        return None
    return {**headed(SKUPPER_TOKENS, name, namespace), "spec": {key: said[key] for key in _TOKEN_FIELDS}}


def is_made_of(token: Mapping[str, Any], granted: Mapping[str, Any] | None) -> bool:
    """Whether a token has the code of a grant, which nobody else's has."""
    code = ((granted or {}).get("status") or {}).get("code")
    return bool(code) and (token.get("spec") or {}).get("code") == code


def has_failed(token: Mapping[str, Any]) -> bool:
    """Whether no link will come of a token: it was too late or refused, or the Site that it was for is gone."""
    return bool((token.get("status") or {}).get("status") == "Error")


def sited(sites: Sequence[Mapping[str, Any]], namespace: str) -> Finding | None:
    """What keeps a namespace of a cluster out of every network; of its Sites one is active."""
    if not sites:
        ask = f"create one, or annotate namespace {namespace} {names.SHORT_PREFIX}{names.SKUPPER_SITE}: true"
        return Finding("False", "NoSite", f"namespace {namespace} has no Skupper Site there: {ask}")
    found = [lacking(each, "Configured", "Running") for each in sites]
    return None if None in found else found[0]


def ungranted(sites: Sequence[Mapping[str, Any]], namespace: str, granted: Raw | None) -> Finding:
    """Why this cluster has not handed out a token yet."""
    bad = sited(sites, namespace)
    if bad is None:
        found = [lacking(each, "Resolved") for each in sites if _takes_links(each)]
        bad = next(iter(found), None) if None not in found else None
    if bad is None and granted is not None:
        bad = lacking(granted, "Processed", "Resolved")
    if bad is None:
        return Finding("False", "Pending", "the link to this cluster is being made")
    return Finding("False", bad.reason, f"no link to this cluster is made: {bad.message}")


def redeemed(token: Mapping[str, Any]) -> Finding | None:
    """What is wrong with a token; None where a link was made of it."""
    said = token.get("status") or {}
    if said.get("redeemed") and not has_failed(token):
        return None
    message = said.get("message") or "the link to this cluster is being made"
    reason = "PeerUnreachable" if has_failed(token) else "Pending"
    return Finding("False", reason, f"AccessToken {token['metadata']['name']}: {message}")


def unlinked(links: Sequence[Mapping[str, Any]], token: str) -> Finding | None:
    """What is wrong with the Links that were made of a token, where no other one works; None for nothing.

    :param links: all of the namespace
    """
    if any(lacking(each, "Operational") is None for each in links):
        return None
    # For a Site with several routers there are several, numbered.
    for each in links:
        name = each["metadata"]["name"]
        if name == token or name.startswith(f"{token}-"):
            return Finding("False", "PeerUnreachable", told(each))
    if links:
        return None
    message = f"AccessToken {token} is redeemed, and there is no Link: delete it, so that another one is made"
    return Finding("False", "PeerUnreachable", message)


def told(link: Mapping[str, Any]) -> str:
    """What is wrong with a Link, empty for nothing."""
    found = lacking(link, "Configured", "Operational")
    return found.message if found is not None else ""


def _takes_links(site: Mapping[str, Any]) -> bool:
    return (site.get("spec") or {}).get("linkAccess", "none") not in ("", "none")
