"""Clusters as state machines: connect, probe, lost, back.

Rooms ask for a state and are told of changes; nobody polls.
"""
