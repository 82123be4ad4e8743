"""Servers of the Model Context Protocol: tools, resources, prompts. Local ones run inside the task's sandbox."""

import logging

# The library logs what servers say, past our redaction; what matters of it is in warnings and results.
logging.getLogger("mcp").addHandler(logging.NullHandler())
logging.getLogger("mcp").propagate = False
