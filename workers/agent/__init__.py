"""The agent loop and what it is made of."""
