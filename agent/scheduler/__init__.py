"""The proxy scheduler: finds a target for each proxy pod, has its delegate scheduled there, and binds the pod.

controller.py       one reconciliation per pod or group; wakes waiting pods
modes.py            selects the mode and the group of a pod
ranked/             mode `ranked`: one candidate at a time, best target first
reserve/            mode `reserve`: candidates in several targets; one may start
groups/             pods that start together or not at all
cache/              assumed state of targets and pods; `agent.ranking` ranks from it
limits.py           number of concurrent requests per target
proxy_writer.py     all writes to proxy pods
chaperon_writer.py  all writes to chaperons, and the meaning of refusals
failed_targets.py   the annotation with the targets that could not take a pod
results.py          result of a step: done, or seconds until the next check
"""
