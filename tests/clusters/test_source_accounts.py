"""Accounts that Sources name, as the Sources change, and for a while after their deletion."""

import json
from typing import Any

import pytest

from agent.api.kinds import CLUSTER_SOURCES, SOURCES, Kind
from agent.clusters.cluster import Cluster
from agent.clusters.stores.source_accounts import LINGER_SECONDS, AccountIndex, SourceAccounts
from agent.kube.client import Client
from agent.kube.config import load
from agent.kube.store import Object
from hack.lab.sandbox import Cluster as SandboxCluster
from tests.waiting import until


def source(name: str, namespace: str = "team", kind: Kind = SOURCES, **spec: Any) -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return Object(kind, json.dumps({"metadata": metadata, "spec": spec}).encode())


def test_an_account_belongs_to_the_sources_that_name_it() -> None:
    changed, now = list[str](), [0.0]
    accounts = AccountIndex(changed.append, lambda: now[0])
    first = source("one", serviceAccountName="cd")
    accounts.update(None, first)
    wide = source("wide", "", CLUSTER_SOURCES, serviceAccount={"name": "cd", "namespace": "team"})
    accounts.update(None, wide)
    assert accounts.source_of("team", "cd") == "Source team/one"
    assert accounts.source_of("other", "cd") == ""
    # The Source names another account: this one still belongs to the ClusterSource.
    accounts.update(first, source("one", serviceAccountName="eu"))
    assert accounts.source_of("team", "cd") == "ClusterSource wide"
    assert accounts.source_of("team", "eu") == "Source team/one"
    assert set(changed) == {"team"}
    # Its bindings are deleted shortly after the Source.
    accounts.update(wide, None)
    now[0] = LINGER_SECONDS - 1
    assert accounts.source_of("team", "cd") == "ClusterSource wide"
    now[0] = LINGER_SECONDS
    assert accounts.source_of("team", "cd") == ""


def test_a_source_that_comes_again_counts_at_once_and_for_good() -> None:
    now = [0.0]
    accounts = AccountIndex(lambda namespace: None, lambda: now[0])
    first = source("one", serviceAccountName="cd")
    accounts.update(None, first)
    accounts.update(first, None)
    accounts.update(None, source("one", serviceAccountName="cd"))
    now[0] = 10 * LINGER_SECONDS
    assert accounts.source_of("team", "cd") == "Source team/one"


def test_the_account_of_all_pods_is_nobodys() -> None:
    accounts = AccountIndex(lambda namespace: None)
    accounts.update(None, source("one", serviceAccountName="default", userName="system:serviceaccount:other:web"))
    assert accounts.source_of("team", "default") == ""
    assert accounts.source_of("other", "web") == "Source team/one"


@pytest.mark.cluster
async def test_only_changes_after_all_sources_were_read_are_reported(
    cluster: SandboxCluster, client: Client, namespace: str
) -> None:
    def made(name: str) -> dict[str, Any]:
        head = {"apiVersion": SOURCES.api_version, "kind": SOURCES.name, "metadata": {"name": name}}
        return {**head, "spec": {"serviceAccountName": name}}

    for name in ("one", "two"):
        await client.create(SOURCES, made(name), namespace)
    changed = list[str]()
    local = Cluster(load(str(cluster.kubeconfig)), "local")
    try:
        accounts = SourceAccounts(local, changed.append)
        await accounts.wait()
        assert accounts.source_of(namespace, "two") == f"Source {namespace}/two"
        assert namespace not in changed
        await client.create(SOURCES, made("three"), namespace)
        await until(lambda: changed.count(namespace) == 1)
    finally:
        await local.close()
