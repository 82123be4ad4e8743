"""What a repository says of itself in `muster.toml`, and what can be guessed where it says nothing."""
