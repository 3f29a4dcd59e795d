"""Writes of an agent to API servers, from its published counters. Pure."""

from collections.abc import Iterator, Mapping

from prometheus_client.parser import text_string_to_metric_families

REQUESTS = "flotilla_api_requests_total"
WRITES = ("POST", "PATCH", "PUT", "DELETE")
_ACCEPTED = "apiserver_request_total"
_VERBS = (*WRITES, "APPLY")
"""API servers count server-side apply as a verb of its own."""
APART = ("events", "leases")
"""Resources that do not count towards a pod's writes: heartbeats, and events, which delay nothing."""
OWN_REVIEWS = ("selfsubjectaccessreviews", "selfsubjectrulesreviews")
"""Resources for reviewing the agent's own rights: sent by POST, but nothing is stored."""


def writes(exposition: str, role: str) -> dict[str, float]:
    """Return the number of writes as `ROLE METHOD RESOURCE OUTCOME` -> count, from the text of /metrics."""
    found: dict[str, float] = {}
    for labels, value in samples(exposition, REQUESTS):
        if labels["method"] in WRITES:
            words = (role, labels["method"], labels["resource"] or "other", labels["outcome"])
            key = " ".join(words)
            found[key] = found.get(key, 0.0) + value
    return found


def accepted(exposition: str) -> dict[str, float]:
    """Return the number of accepted writes by resource, from the text of an API server's /metrics."""
    # Only these lines are parsed: the text of a busy API server has tens of thousands.
    text = "\n".join(line for line in exposition.splitlines() if line.startswith(_ACCEPTED + "{"))
    found: dict[str, float] = {}
    for labels, value in samples(text + "\n", _ACCEPTED):
        if labels["verb"] in _VERBS and labels["code"].startswith("2") and not labels.get("dry_run"):
            found[labels["resource"]] = found.get(labels["resource"], 0.0) + value
    return found


def samples(exposition: str, metric: str) -> Iterator[tuple[Mapping[str, str], float]]:
    """Yield labels and value of each series of a metric, from the text of /metrics."""
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            if sample.name == metric:
                yield sample.labels, sample.value


def counted(found: Mapping[str, float]) -> float:
    """Return the number of writes that count: all except to events and leases, including failed ones."""
    return sum(count for key, count in found.items() if resource(key) not in APART)


def failed(found: Mapping[str, float]) -> float:
    """Return how many of the writes that count were refused or lost."""
    mine = {key: count for key, count in found.items() if resource(key) not in APART}
    return sum(count for key, count in mine.items() if not key.split()[3].startswith("2"))


def by_resource(found: Mapping[str, float]) -> dict[str, float]:
    """Return the writes without outcomes: `ROLE METHOD RESOURCE` -> count."""
    totals: dict[str, float] = {}
    for key, count in found.items():
        short = key.rpartition(" ")[0]
        totals[short] = totals.get(short, 0.0) + count
    return totals


def resource(key: str) -> str:
    """Return the resource, without subresource, of a key of `writes`."""
    return key.split()[2].partition("/")[0]
