"""Forges: what they have in common (`base.py`), and one file for each kind. The only place that speaks to them."""
