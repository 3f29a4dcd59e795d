"""Network drivers: publish the endpoints of Services across clusters, with a driver for each pair of clusters.

`choice` has the list of drivers. `controllers.endpoints` has the controllers that watch and write for them.
"""
