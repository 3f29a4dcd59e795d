"""Assumed state of targets and of pods in flight, kept up to date by watches.

scheduler_cache.py returns each pod's demands and the ranking of its targets. Whenever a change may help a waiting pod,
it increments `epoch` and wakes the pods that wait.
"""
