"""Clusters as state machines: connecting, connected, lost, reconnected.

Controllers read the state and subscribe to changes; none polls.
"""
