"""What travels between the orchestrator, the transport and the workers: frozen values, no I/O, no clock."""
