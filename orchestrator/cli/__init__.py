"""The command line. `main` is light: what a command needs is imported when the command is called."""
