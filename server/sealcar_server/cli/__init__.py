"""The commands that need the daemon."""
