"""Programs of others that lead a session: they speak the Agent Client Protocol, and run in the task's sandbox."""
