"""What is kept of a session with a model, and what happens between its turns."""
