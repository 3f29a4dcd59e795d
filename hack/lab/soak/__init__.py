"""`hack/soak`: runs a fleet under load and faults, and judges it by the audit logs of its API servers."""
