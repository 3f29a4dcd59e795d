"""Error of a comparison."""


class CorpusError(Exception):
    """The comparison failed; the message contains the reason and a remedy."""
