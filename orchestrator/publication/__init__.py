"""Publication: what was made and proved leaves the fleet, as a branch, files, a push or a request for review."""
