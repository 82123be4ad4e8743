"""Isolated places to run commands that nobody vouches for: one container, one workspace, one patch."""
