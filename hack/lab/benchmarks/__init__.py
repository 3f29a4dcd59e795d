"""Benchmarks on real clusters, compared with a plain cluster on the same machine. `hack/bench` runs them."""
