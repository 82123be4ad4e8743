"""The console: pages for people, over the same client and rights as the API."""
