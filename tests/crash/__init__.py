"""Real processes, ended by force at every step."""
