"""What callers can do, a file for each kind. What is said of a tool here is all that a model knows of it."""
