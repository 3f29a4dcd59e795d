"""The gateway benchmark with a size: arguments and a small run."""

import argparse

import pytest

from hack.lab.benchmarks import gatewaysize
from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.gatewaysize import Size, size, sized


def test_a_size_has_namespaces_services_and_clusters() -> None:
    assert size("100x20x3") == Size(100, 20, 3)
    for wrong in ("100x20", "axbxc", "1x1x1", "0x1x2", ""):
        with pytest.raises(argparse.ArgumentTypeError, match="NAMESPACESxSERVICESxCLUSTERS"):
            size(wrong)


async def test_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gatewaysize, "CHANGES", 1)
    lines, figures = await sized(Size(2, 2, 3))
    assert "2 namespaces x 2 Services x 3 clusters: 4 GatewayPeers" in "\n".join(lines)
    assert figures["services_left_out"] == 0
    assert figures["files_bytes"] > 4 * 2 * 2000
    _, less = await sized(Size(2, 2, 3), memory=1)
    assert less["services_left_out"] > 0
    assert less["files_bytes"] < figures["files_bytes"]


async def test_more_than_all_local_ports_is_refused() -> None:
    with pytest.raises(BenchError, match="40,000 local ports"):
        await sized(Size(1000, 20, 20))
