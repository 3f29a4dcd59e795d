"""Skupper Sites, which namespaces request by annotation, and the links between them, with their states. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.api import names
from agent.api.kinds import SITES, SKUPPER_GRANTS, SKUPPER_TOKENS
from agent.model.servicelinks import Finding
from agent.model.skupper import Raw, digest, headed, lacking

SITE = "flotilla"
_TOKEN_FIELDS = ("url", "code", "ca")


def site(namespace: str, *, reached: bool) -> Raw:
    """Return the Site of a namespace; it accepts links from other Sites if it is `reached`."""
    return {**headed(SITES, SITE, namespace), "spec": {"linkAccess": "default"} if reached else {}}


def grant_name(cluster: str) -> str:
    """Return the name of the grant for one target in the local cluster; in earlier versions the token had it, too."""
    return f"flotilla-{digest(cluster)}"


def token_name(cluster: str, source: str) -> str:
    """Return the name of a token. It is unique even if two sources use one target name, and one namespace in it.

    :param source: UID of the cluster that the link connects to
    """
    return f"flotilla-{digest(f'{source}/{cluster}')}"


def grant(namespace: str, cluster: str) -> Raw:
    """Return the grant with which one cluster can create a link to the local one, once."""
    return {**headed(SKUPPER_GRANTS, grant_name(cluster), namespace), "spec": {"redemptionsAllowed": 1}}


def token(granted: Mapping[str, Any], namespace: str, name: str) -> Raw | None:
    """Return the token from which the target creates the link; None while the grant is not ready."""
    said = granted.get("status") or {}
    if said.get("status") != "Ready" or not all(said.get(key) for key in _TOKEN_FIELDS):
        return None
    return {**headed(SKUPPER_TOKENS, name, namespace), "spec": {key: said[key] for key in _TOKEN_FIELDS}}


def is_made_of(token: Mapping[str, Any], granted: Mapping[str, Any] | None) -> bool:
    """Return whether a token has the code of this grant; codes are unique."""
    code = ((granted or {}).get("status") or {}).get("code")
    return bool(code) and (token.get("spec") or {}).get("code") == code


def has_failed(token: Mapping[str, Any]) -> bool:
    """Return whether a token cannot become a link: it has expired, was rejected, or its Site has been deleted."""
    return bool((token.get("status") or {}).get("status") == "Error")


def sited(sites: Sequence[Mapping[str, Any]], namespace: str) -> Finding | None:
    """Return the reason why a namespace of a cluster is in no network; None if one of its Sites is active."""
    if not sites:
        ask = f"create one, or annotate namespace {namespace} {names.SHORT_PREFIX}{names.SKUPPER_SITE}: true"
        return Finding("False", "NoSite", f"namespace {namespace} has no Skupper Site there: {ask}")
    found = [lacking(each, "Configured", "Running") for each in sites]
    return None if None in found else found[0]


def ungranted(sites: Sequence[Mapping[str, Any]], namespace: str, granted: Raw | None) -> Finding:
    """Return the reason why the local cluster has not issued a token yet."""
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
    """Return the problem of a token; None if a link has been created from it."""
    said = token.get("status") or {}
    if said.get("redeemed") and not has_failed(token):
        return None
    message = said.get("message") or "the link to this cluster is being made"
    reason = "PeerUnreachable" if has_failed(token) else "Pending"
    return Finding("False", reason, f"AccessToken {token['metadata']['name']}: {message}")


def unlinked(links: Sequence[Mapping[str, Any]], token: str) -> Finding | None:
    """Return the problem of the Links from a token, unless any Link works; None if there is no problem.

    :param links: all Links of the namespace
    """
    if any(lacking(each, "Operational") is None for each in links):
        return None
    # A Site with several routers has several Links, numbered.
    for each in links:
        name = each["metadata"]["name"]
        if name == token or name.startswith(f"{token}-"):
            return Finding("False", "PeerUnreachable", told(each))
    if links:
        return None
    message = f"AccessToken {token} is redeemed, and there is no Link: delete it, so that another one is made"
    return Finding("False", "PeerUnreachable", message)


def told(link: Mapping[str, Any]) -> str:
    """Return the problem of a Link, empty for none."""
    found = lacking(link, "Configured", "Operational")
    return found.message if found is not None else ""


def _takes_links(site: Mapping[str, Any]) -> bool:
    return (site.get("spec") or {}).get("linkAccess", "none") not in ("", "none")
