"""What a request refers to: listed in the prompt, read on demand."""
