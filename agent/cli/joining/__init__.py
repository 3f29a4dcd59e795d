"""Parts that `flotilla join`, `leave` and `export` share: clusters, names, manifests, checks, and the steps."""
