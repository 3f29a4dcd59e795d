from agent.model.ingress import secrets, services


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
    assert services({"spec": spec}) == {"a", "b", "fallback"}


def test_rules_without_http_and_backends_that_are_no_services_name_none() -> None:
    bucket = {"resource": {"apiGroup": "example.com", "kind": "Bucket", "name": "static"}}
    spec = {"rules": [{"host": "a.example.com"}, {"http": {"paths": [{"backend": bucket}]}}, {"http": None}]}
    assert services({"spec": spec}) == set()
    assert services({"spec": {"defaultBackend": bucket, "rules": None}}) == set()
    assert services({}) == set()


def test_certificates_are_found() -> None:
    assert secrets({"spec": {"tls": [{"secretName": "a"}, {"hosts": ["b.example.com"]}]}}) == {"a"}
    assert secrets({}) == set()
