"""What is laid into a gate's sandbox and runs there, in whatever Python and beside whatever runner the project has."""
