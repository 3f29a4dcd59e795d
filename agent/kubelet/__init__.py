"""The kubelet API of virtual nodes: logs, exec, attach, port-forward and usage, with a real kubelet's authorization.

`controller` keeps a port for each virtual node and the certificate. `server` answers requests: it finds the user
(`identity`), checks rights (`access`), parses the request (`routes`) and finds the pod (`pods`). Then it splices bytes
with a connection to the target's API server (`streaming`) or returns a page (`pages`, `usage`).
"""
