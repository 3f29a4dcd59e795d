"""Which accounts Sources name, as they change, and for a while after they were deleted."""

import json
from typing import Any

from agent.api.kinds import CLUSTER_SOURCES, SOURCES, Kind
from agent.clusters.source_accounts import LINGER_SECONDS, AccountIndex
from agent.kube.store import Object


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
    # The Source names another one: the account is still that of the ClusterSource.
    accounts.update(first, source("one", serviceAccountName="eu"))
    assert accounts.source_of("team", "cd") == "ClusterSource wide"
    assert accounts.source_of("team", "eu") == "Source team/one"
    assert set(changed) == {"team"}
    # Its bindings go a moment after a Source.
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
