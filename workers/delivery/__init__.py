"""One delivery in, one TaskResult out: whatever the task is."""
