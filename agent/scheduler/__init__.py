"""The proxy scheduler: finds a target for each proxy pod, has its delegate placed there, binds the pod.

controller.py       one reconciliation per pod or group; wakes those that wait
modes.py            which mode, which group
ranked/             mode `ranked`: one candidate at a time, best target first
reserve/            mode `reserve`: candidates everywhere, one of which is allowed
groups/             pods that start together or not at all
cache/              what we assume of targets and pods; `agent.scheduling` ranks from it
limits.py           how many requests to a target are under way at once
proxy_writer.py     all writes to proxy pods
chaperon_writer.py  all writes to chaperons, and what a refusal means
failed_targets.py   the annotation that tells which targets could not take a pod
results.py          what a step comes to: done, or when to look again
"""
