"""Fleet overview for operators: read from the source, and from targets as far as the user may."""
