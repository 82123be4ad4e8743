def slug(text: str):
    """Return the words in small letters, with a hyphen between two."""
    raise NotImplementedError
