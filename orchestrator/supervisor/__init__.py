"""One machine's fleet: an embedded Redis, an orchestrator and the worker pools, kept alive by whoever needs them."""
