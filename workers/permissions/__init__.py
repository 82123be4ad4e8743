"""What an agent may do below its scope: ordered rules, and shell commands read as what they run."""
