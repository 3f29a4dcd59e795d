"""The bind extender of a stock kube-scheduler: reserve a node for a candidate, wait until its source allows it, bind.

The target's side of scheduling mode `reserve`. `hack/design/20261121-reservation.md` tells how a hold goes.
"""
