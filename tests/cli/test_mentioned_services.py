"""Services that pods mention, in every way in which they are found."""

from typing import Any

import pytest

from agent.cli.checks.mentioned_services import mentioned

KNOWN = {("shop", "db"), ("shop", "web"), ("base", "db"), ("base", "queue")}


def pod(env: dict[str, str] | None = None, args: list[str] | None = None, command: list[str] | None = None) -> Any:
    variables = [{"name": name, "value": value} for name, value in (env or {}).items()]
    container = {"name": "main", "env": [*variables, {"name": "IP", "valueFrom": {}}], "args": args, "command": command}
    return {
        "metadata": {"name": "app", "namespace": "shop"},
        "spec": {"containers": [container], "initContainers": None},
    }


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("db", ("shop", "db")),
        ("db:5432", ("shop", "db")),
        ("postgres://me:secret@db:5432/orders?sslmode=off", ("shop", "db")),
        ("http://db/", ("shop", "db")),
        ("db.base", ("base", "db")),
        ("amqp://queue.base:5672", ("base", "queue")),
        ("queue.base.svc", ("base", "queue")),
        ("queue.base.svc.cluster.local.", ("base", "queue")),
        ("http://QUEUE.base.svc.cluster.local/x", ("base", "queue")),
        ("db-0.db:5432", ("shop", "db")),
        ("db-0.db.base.svc.cluster.local", ("base", "db")),
        ("a:1, queue.base:9092;b:2", ("base", "queue")),
        ("host=db port=5432", ("shop", "db")),
    ],
)
def test_a_service_is_found_in_an_address(text: str, want: tuple[str, str]) -> None:
    assert mentioned(pod({"DATABASE_URL": text}), KNOWN) == {want}


@pytest.mark.parametrize(
    ("args", "command"),
    [
        (["--db", "db"], None),
        (["--db=db"], None),
        (None, ["run", "db:5432"]),
        (["-c", "wait-for db.shop && run"], ["sh"]),
    ],
)
def test_so_it_is_in_arguments_and_commands(args: list[str] | None, command: list[str] | None) -> None:
    assert mentioned(pod(None, args, command), KNOWN) == {("shop", "db")}


@pytest.mark.parametrize(
    "of",
    [
        pod({"DB_NAME": "db"}),
        pod({"MODE": "web server"}),
        pod(None, ["serve", "web"]),
        pod({"DATABASE_URL": "db.example.com:5432"}),
        pod({"DATABASE_URL": "http://10.0.0.1/db"}),
        pod({"DATABASE_URL": "other:5432"}),
        pod({"PATH": "/usr/db:/usr/web"}),
        {"metadata": {"namespace": "shop"}, "spec": {"containers": [{"name": "main"}]}},
    ],
    ids=["no address", "words", "a subcommand", "elsewhere", "a path", "unknown", "paths", "nothing"],
)
def test_nothing_is_made_of_what_only_looks_like_it(of: Any) -> None:
    assert mentioned(of, KNOWN) == set()


def test_the_namespace_of_the_pod_is_meant_where_none_is_named() -> None:
    assert mentioned({**pod({"DB_HOST": "db"}), "metadata": {"namespace": "base"}}, KNOWN) == {("base", "db")}
