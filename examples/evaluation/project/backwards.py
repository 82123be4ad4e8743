def backwards(text: str):
    """Return its words from the last to the first."""
    raise NotImplementedError
