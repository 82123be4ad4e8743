"""A task's sandbox and workspace, and what a machine keeps or clears away of them."""
