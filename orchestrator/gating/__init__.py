"""A change's own effect on the tests and on the gate that is to judge it."""
