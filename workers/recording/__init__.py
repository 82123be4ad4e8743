"""A task on a cassette: recorded while it works, and played again offline."""
