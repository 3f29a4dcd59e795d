"""Everything that an operator can get wrong: read once (gather), then judged by pure checks, each with its remedy."""
