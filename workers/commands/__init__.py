"""Commands: prompts that a person starts by a name, as Markdown files with places for arguments."""

from .template import expand as expand
