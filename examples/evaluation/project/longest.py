def longest(text: str):
    """Return the longest of its words, of equal ones the first."""
    raise NotImplementedError
