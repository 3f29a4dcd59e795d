"""The command hack/corpus, with its own clusters."""

from pathlib import Path

import pytest

from hack.lab.corpus.__main__ import main

MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
        - {name: web, image: "app:1"}
"""
NOT_ALIKE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: told}
data: {node: here}
---
apiVersion: v1
kind: Pod
metadata: {name: named}
spec:
  nodeName: plain-node-0
  containers:
    - {name: main, image: "app:1"}
"""


@pytest.mark.seldom
@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_any_directory_is_compared_and_a_difference_ends_it_with_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "web.yaml").write_text(MANIFEST)
    (tmp_path / "named.yaml").write_text(NOT_ALIKE)
    assert main([str(tmp_path), "--patience", "15"]) == 1
    told = capsys.readouterr().out
    assert "web.yaml    alike" in told
    # Only the plain cluster has a node with that name.
    assert "named.yaml  differs" in told
    assert told.splitlines()[-1] == "1 of 2 alike"
