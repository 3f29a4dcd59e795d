from typing import Any

import msgspec

from agent.model.ingress import LIMIT, Named, named


def read(ingress: dict[str, Any]) -> Named:
    return named(msgspec.json.encode(ingress))


def backend(name: str) -> dict[str, object]:
    return {"service": {"name": name, "port": {"number": 80}}}


def test_all_services_that_an_ingress_names_are_found() -> None:
    spec = {
        "defaultBackend": backend("fallback"),
        "rules": [
            {"host": "a.example.com", "http": {"paths": [{"backend": backend("a")}, {"backend": backend("b")}]}},
            {"http": {"paths": [{"backend": backend("a")}]}},
        ],
    }
    assert read({"spec": spec}).services == {"a", "b", "fallback"}


def test_rules_without_http_and_backends_that_are_no_services_name_none() -> None:
    bucket = {"resource": {"apiGroup": "example.com", "kind": "Bucket", "name": "static"}}
    spec = {"rules": [{"host": "a.example.com"}, {"http": {"paths": [{"backend": bucket}]}}, {"http": None}]}
    assert read({"spec": spec}).services == set()
    assert read({"spec": {"defaultBackend": bucket, "rules": None}}).services == set()
    assert read({}).services == set()


def test_certificates_are_found() -> None:
    assert read({"spec": {"tls": [{"secretName": "a"}, {"hosts": ["b.example.com"]}]}}).secrets == {"a"}
    assert read({}).secrets == set()


def test_an_ingress_that_names_thousands_of_services_or_secrets_is_not_copied() -> None:
    paths = [{"backend": backend(f"s{index}")} for index in range(LIMIT + 1)]
    found = read({"spec": {"rules": [{"http": {"paths": paths}}]}})
    assert len(found.services) == LIMIT
    assert found.flaw.startswith("spec.rules: it names more than 1000 Services, and is not copied: split it")
    assert not read({"spec": {"rules": [{"http": {"paths": paths[1:] * 2}}]}}).flaw
    tls = [{"secretName": f"s{index}"} for index in range(LIMIT + 1)]
    assert read({"spec": {"tls": tls}}).flaw.startswith("spec.tls: it names more than 1000 Secrets")
