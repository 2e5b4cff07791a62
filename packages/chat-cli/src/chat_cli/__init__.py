"""`chat`: ask a model from a terminal, with files, tools, approvals and sessions."""

__all__: list[str] = []
