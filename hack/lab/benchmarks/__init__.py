"""Benchmarks on real clusters, each beside a plain cluster on the same machine. `hack/bench` runs them."""
