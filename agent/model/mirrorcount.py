"""Number of EndpointSlices that the driver `endpointslices` needs: it grows with the square of the clusters. Pure."""

from collections.abc import Iterable

MIRRORS_LIMIT = 10_000
"""Recommended maximum of mirrored EndpointSlices of a namespace, in all clusters together.

20 Services in 20 clusters have 7,600. The source's agent keeps all of them in memory, and one changed endpoint costs it
as many writes as there are other clusters.
"""


def most(clusters: Iterable[int]) -> int:
    """Return how many mirrors Services have at most if none has more than 100 endpoints in a cluster.

    :param clusters: number of clusters of each Service, the source included
    """
    return sum(each * (each - 1) for each in clusters)
