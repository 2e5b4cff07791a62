"""The Responses wire, held to what was recorded of it."""
