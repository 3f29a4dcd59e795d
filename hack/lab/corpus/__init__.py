"""`hack/corpus`: applies manifests unchanged, plain and elected, and compares the results."""
