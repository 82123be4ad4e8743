"""What a repository and its user tell agents: instruction files and skills. The repository's words are not trusted."""
