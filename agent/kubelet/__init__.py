"""The kubelet API of virtual nodes: logs, exec, attach, port-forward and usage, for whoever a real kubelet would let.

`controller` keeps a port for each virtual node and the certificate; `server` answers on it: who asks (`identity`), may
they (`access`), what is asked (`routes`), which pod is meant (`pods`), and then either bytes are spliced with a
connection to the target's API server (`streaming`) or a page is made (`pages`, `usage`).
"""
