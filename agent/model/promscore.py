"""Scores of clusters from Prometheus, as an administrator lists them: parsed and validated field by field. Pure."""

import math
import re
import urllib.parse
from collections.abc import Mapping
from typing import Any

import msgspec

from agent.api import labels
from agent.api.names.ocm import USAGE_SCORES
from agent.model import duration, json_or_yaml
from agent.model.json_or_yaml import InvalidDocument

SHORTEST = "1s"
"""The shortest interval."""
MOST = 100

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_FIELDS = ("name", "resource", "url", "query", "clusterLabel", "min", "max", "interval", "tokenSecret", "caBundle")


class InvalidPrometheusScores(ValueError):
    """A list that cannot be used; the message has the field and the remedy."""


class SecretKey(msgspec.Struct, frozen=True):
    """A Secret in the agent's namespace, and the key in it."""

    name: str
    key: str


class PrometheusScore(msgspec.Struct, frozen=True):
    """One score of all clusters, from one instant query."""

    place: str
    """Position in the list, for messages."""
    name: str
    """Name of the score."""
    resource: str
    """Name of the AddOnPlacementScore with the score."""
    url: str
    """Without `/api/v1/query` and without a final slash."""
    query: str
    cluster_label: str
    """Label of the result's series that names the ManagedCluster."""
    lowest: float
    """Value for the score -100."""
    highest: float
    """Value for the score 100."""
    interval: float
    """Seconds between queries."""
    token: SecretKey | None
    ca_bundle: str
    """PEM; empty for the system's authorities."""


def read(text: str) -> tuple[PrometheusScore, ...]:
    """Parse the scores in a YAML or JSON document.

    :raises InvalidPrometheusScores: if the list is invalid
    """
    try:
        found = json_or_yaml.read(text)
    except InvalidDocument as error:
        raise InvalidPrometheusScores(f"is no YAML: {error}") from error
    if found is None:
        return ()
    if not isinstance(found, list) or len(found) > MOST:
        raise InvalidPrometheusScores(f"must be a list of {MOST} scores at most, each with {', '.join(_FIELDS)}")
    scores = tuple(_score(_Fields(f"[{index}]", each)) for index, each in enumerate(found))
    seen: dict[tuple[str, str], str] = {}
    for score in scores:
        first = seen.setdefault((score.resource, score.name), score.place)
        if first != score.place:
            raise InvalidPrometheusScores(
                f"{score.place}.name: {score.name} of resource {score.resource} is in {first} already: rename one"
            )
    return scores


class _Fields:
    """One entry of the list, with its fields."""

    def __init__(self, place: str, raw: Any) -> None:
        self.place = place
        if not isinstance(raw, Mapping):
            raise InvalidPrometheusScores(f"{place}: must be an object with {', '.join(_FIELDS)}")
        self._raw = {key: value for key, value in raw.items() if value is not None}
        unknown = next((key for key in self._raw if key not in _FIELDS), None)
        if unknown is not None:
            raise self.wrong(str(unknown), f"there is no such field: it has {', '.join(_FIELDS)}")

    def wrong(self, field: str, reason: str) -> InvalidPrometheusScores:
        return InvalidPrometheusScores(f"{self.place}.{field}: {reason}")

    def text(self, field: str, default: str | None = None) -> str:
        """Return a field that is not empty; with the default None, it is required."""
        value = self._raw.get(field, default)
        if value is None:
            raise self.wrong(field, "is missing: add it")
        if not isinstance(value, str) or (not value.strip() and default != ""):
            raise self.wrong(field, f"must be text, not {value!r}: put it into quotes")
        return value

    def number(self, field: str, default: float | None = None) -> float:
        value = self._raw.get(field, default)
        if value is None:
            raise self.wrong(field, "is missing: add it")
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.wrong(field, f"must be a number, not {value!r}")
        return float(value)

    def get(self, field: str) -> Any:
        return self._raw.get(field)


def _score(fields: _Fields) -> PrometheusScore:
    url, ca_bundle = _url(fields), fields.text("caBundle", "")
    token = _token(fields)
    if not url.startswith("https://"):
        for field in ("tokenSecret",) * bool(token) + ("caBundle",) * bool(ca_bundle):
            raise fields.wrong(field, f"is for https only, and url is {url}: use https, or remove it")
    lowest, highest = fields.number("min", 0.0), fields.number("max")
    if not lowest < highest:
        raise fields.wrong(
            "max", f"must be more than min, {lowest:g}, which is the score -100: swap them, or correct one"
        )
    return PrometheusScore(
        place=fields.place,
        name=fields.text("name"),
        resource=_resource(fields),
        url=url,
        query=fields.text("query"),
        cluster_label=_label(fields),
        lowest=lowest,
        highest=highest,
        interval=_interval(fields),
        token=token,
        ca_bundle=ca_bundle,
    )


def _resource(fields: _Fields) -> str:
    resource = fields.text("resource")
    if not labels.is_name(resource):
        raise fields.wrong(
            "resource", f"{resource!r} can be no AddOnPlacementScore's name: lower-case letters, digits, '-' and '.'"
        )
    if resource == USAGE_SCORES:
        raise fields.wrong("resource", f"{USAGE_SCORES} holds the scores of usage: choose another name")
    return resource


def _url(fields: _Fields) -> str:
    url = fields.text("url")
    try:
        parts = urllib.parse.urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, usable = urllib.parse.urlsplit(""), False
    if not usable or parts.query or parts.fragment:
        raise fields.wrong("url", f"{url!r} must be http(s)://HOST[:PORT][/PATH], to which /api/v1/query is added")
    if parts.username is not None:
        raise fields.wrong("url", "must not hold credentials: put a token into a Secret, and name it in tokenSecret")
    return url.rstrip("/")


def _label(fields: _Fields) -> str:
    label = fields.text("clusterLabel", "cluster")
    if not _LABEL.fullmatch(label):
        raise fields.wrong("clusterLabel", f"{label!r} can be no label of a series: letters, digits and underscores")
    return label


def _interval(fields: _Fields) -> float:
    given = fields.get("interval")
    try:
        seconds = duration.seconds(str(given)) if given is not None else 30.0
    except duration.InvalidDuration as error:
        raise fields.wrong("interval", f"{given!r} {error}") from error
    if seconds < duration.seconds(SHORTEST):
        raise fields.wrong("interval", f"must be {SHORTEST} at least, not {given}")
    return seconds


def _token(fields: _Fields) -> SecretKey | None:
    given = fields.get("tokenSecret")
    if given is None:
        return None
    known = isinstance(given, Mapping) and not set(given) - {"name", "key"}
    name, key = (given.get("name"), given.get("key", "token")) if known else (None, None)
    if not isinstance(name, str) or not labels.is_name(name) or not isinstance(key, str) or not key:
        raise fields.wrong(
            "tokenSecret", "must be {name: SECRET, key: KEY}, a Secret in the agent's namespace; by default key token"
        )
    return SecretKey(name, key)
