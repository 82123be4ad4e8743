"""Tools of MCP servers (Model Context Protocol): local ones run inside the task's sandbox."""
