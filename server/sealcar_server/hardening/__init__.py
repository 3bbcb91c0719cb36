"""What the daemon gives up at its start, and what it refuses to trust."""
