"""Spans of what a fleet does, and the W3C context that ties them together.

Code that is traced says `with span(TURN, …)`. Nothing of OpenTelemetry is imported, and a span is an empty object that
all share, unless a process has been told to trace (`starting.py`).
"""
