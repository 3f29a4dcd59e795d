"""The only package that creates tasks: queues, controllers, leases, supervision, health."""
