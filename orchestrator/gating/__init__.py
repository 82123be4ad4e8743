"""What a change does to the tests and to the gate that is to judge it."""
