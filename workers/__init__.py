"""Worker pools: one TaskRequest in, an agent loop (or a recipe) in a sandbox, one TaskResult out."""
