"""What the scheduler assumes of targets and of pods in flight, kept up to date by watches.

scheduler_cache.py gives for each pod what it asks for and the ranking of its targets; whenever what it knows may help
a pod that waits, it changes `epoch` and wakes those that wait.
"""
