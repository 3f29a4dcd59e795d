"""What ends a comparison before anything can be said."""


class CorpusError(Exception):
    """The comparison could not be done; the message says why, and what helps."""
