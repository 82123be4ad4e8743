def initials(text: str):
    """Return the first letter of each word, in capitals."""
    raise NotImplementedError
