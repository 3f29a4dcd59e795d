"""What operators see of a fleet: read from the source cluster, and from targets as far as the user may."""
