"""The benchmark of P2CODE's applications, at a small size."""

from hack.lab.benchmarks.applications import applications


def test_an_application_is_checked_and_bundled_without_a_cluster() -> None:
    lines, figures = applications(50)
    assert figures["manifests"] == 50
    assert figures["check_ms"] > 0
    assert "50 manifests, 10 workloads" in lines[0]
