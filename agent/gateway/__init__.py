"""The process beside Envoy in a gateway pod: it makes Envoy's files of what it is told, and tells how peers are.

It is told by a file, which it writes itself in a cluster (`--from-cluster`). No traffic passes through it: while it is
away, Envoy goes on with what it has.
"""
