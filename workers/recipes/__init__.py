"""Fixed commands in a sandbox, without a model."""
