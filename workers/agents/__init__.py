"""Agents: personas as data, one Markdown file each."""
