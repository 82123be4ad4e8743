"""Muster as a server of the Model Context Protocol: other agents and editors hand work to the fleet, and fetch it."""

import logging

# The library logs what callers send, past our redaction; what matters of it is in answers.
logging.getLogger("mcp").addHandler(logging.NullHandler())
logging.getLogger("mcp").propagate = False
