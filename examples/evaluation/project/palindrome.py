def palindrome(text: str):
    """Return whether it reads the same from both sides."""
    raise NotImplementedError
