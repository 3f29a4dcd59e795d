"""Objects that sources have in a cluster, whether the sources are alive, and deletion of their objects."""
