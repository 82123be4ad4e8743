"""The fleet over HTTP: what the command line and the Python client do, for tokens with roles and tenants."""
