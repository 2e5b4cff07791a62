"""The tools of an MCP server as tools of chat-core, with their annotations for a policy to read."""

__all__: list[str] = []
