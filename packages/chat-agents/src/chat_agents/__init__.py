"""Agent flows and sessions over a chat."""
