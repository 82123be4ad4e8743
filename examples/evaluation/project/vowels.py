def vowels(text: str):
    """Return how many of its letters are a, e, i, o or u."""
    raise NotImplementedError
