"""The only package that speaks HTTP to an API server: configuration, session, errors, watches, stores, events."""
