"""The bind extender of a stock kube-scheduler: reserves a node for a candidate, waits for permission, and binds it.

The target's side of scheduling mode `reserve`. `hack/design/20261121-reservation.md` explains the life of a hold.
"""
