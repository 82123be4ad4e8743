"""Durable queues, leases and event streams. Knows tasks by their ids and states, never by what they mean."""
