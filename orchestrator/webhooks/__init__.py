"""Webhooks: others outside of the fleet hear what happens in it, signed, and until they have heard it."""
