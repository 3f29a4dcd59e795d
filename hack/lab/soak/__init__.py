"""`hack/soak`: a fleet under work and under faults, judged by what its API servers have written down."""
