"""What runs in a sandbox: each file is a program of the standard library alone."""
