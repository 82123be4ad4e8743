"""`muster acp`: an editor's door. Its prompts become goals, and their traces its session updates."""
