"""A trace as it is seen: its tasks, folded from the event stream. Command line, console and API show the same one."""
