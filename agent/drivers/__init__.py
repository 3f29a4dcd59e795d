"""Networks between clusters: how Services in one learn of the endpoints in the other, a driver for each pair.

`choice` has the list of drivers. The rooms that use them watch and write for them: `controllers.endpoints`.
"""
