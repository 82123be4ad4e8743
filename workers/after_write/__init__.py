"""What happens to a file that a tool has written: it is formatted, and a language server says what is wrong with it."""
