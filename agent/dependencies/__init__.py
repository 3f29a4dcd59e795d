"""Controllers of what pods need in a target: ConfigMaps, Secrets, claims, rules, access to the source."""
