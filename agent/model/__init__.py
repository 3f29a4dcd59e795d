"""Rules about pods, nodes and clusters: pure and synchronous, raw dicts in, raw dicts out, no I/O."""
