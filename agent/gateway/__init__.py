"""Gateway process: runs next to Envoy in a gateway pod.

It generates Envoy's files from an input file, and reports the health of peers. In a cluster (`--from-cluster`)
it writes the input file itself. If this process stops, Envoy continues with its last files.
"""
