"""The tools of an agent: one tool, one file."""
