"""Evaluations: cases with gates, tried by models, agents and prompts, and compared."""
