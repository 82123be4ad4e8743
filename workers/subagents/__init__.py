"""Tasks of their own for an agent's subagents, with no more than their caller has."""
