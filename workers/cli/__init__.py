"""`muster-worker`, and the subcommands of `muster` that need workers' code."""
