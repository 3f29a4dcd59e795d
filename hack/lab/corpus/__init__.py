"""`hack/corpus`: manifests applied unchanged, plain and where they are elected, and whether that comes out alike."""
