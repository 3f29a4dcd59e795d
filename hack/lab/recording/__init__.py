"""Pictures of terminals for README and docs, recorded from the real output of commands."""
