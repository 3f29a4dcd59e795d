"""What an agent wrote to API servers, from the counters that it publishes. Pure."""

from collections.abc import Iterator, Mapping

from prometheus_client.parser import text_string_to_metric_families

REQUESTS = "flotilla_api_requests_total"
WRITES = ("POST", "PATCH", "PUT", "DELETE")
APART = ("events", "leases")
"""Resources that do not count towards a pod's writes: heartbeats, and what nobody waits for."""
OWN_REVIEWS = ("selfsubjectaccessreviews", "selfsubjectrulesreviews")
"""Of our own rights: questions, although they are sent by POST; nothing is stored."""


def writes(exposition: str, role: str) -> dict[str, float]:
    """Writes so far as `ROLE METHOD RESOURCE OUTCOME` -> count, from the text of /metrics."""
    found: dict[str, float] = {}
    for labels, value in samples(exposition, REQUESTS):
        if labels["method"] in WRITES:
            words = (role, labels["method"], labels["resource"] or "other", labels["outcome"])
            key = " ".join(words)
            found[key] = found.get(key, 0.0) + value
    return found


def samples(exposition: str, metric: str) -> Iterator[tuple[Mapping[str, str], float]]:
    """Labels and value of each series of a metric, from the text of /metrics."""
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            if sample.name == metric:
                yield sample.labels, sample.value


def counted(found: Mapping[str, float]) -> float:
    """How many writes count: all but those to events and leases, failed ones too."""
    return sum(count for key, count in found.items() if resource(key) not in APART)


def failed(found: Mapping[str, float]) -> float:
    """How many writes that count were refused or lost."""
    mine = {key: count for key, count in found.items() if resource(key) not in APART}
    return sum(count for key, count in mine.items() if not key.split()[3].startswith("2"))


def by_resource(found: Mapping[str, float]) -> dict[str, float]:
    """The same without outcomes: `ROLE METHOD RESOURCE` -> count."""
    totals: dict[str, float] = {}
    for key, count in found.items():
        short = key.rpartition(" ")[0]
        totals[short] = totals.get(short, 0.0) + count
    return totals


def resource(key: str) -> str:
    """The resource, without subresource, of a key as `writes` makes it."""
    return key.split()[2].partition("/")[0]
