"""What a process shows of itself: its metrics for Prometheus, whether it is alive, whether it is ready."""
