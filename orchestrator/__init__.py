"""Plans, fans out, merges, verifies and reports. No model key, no Docker; nothing untrusted runs here."""
