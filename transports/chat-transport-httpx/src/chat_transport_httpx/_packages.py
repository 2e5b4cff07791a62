"""The HTTP packages of the transport's own clients: httpx2 with httpcore2 if installed, otherwise httpx with httpcore.

httpx2 continues httpx with the same classes. Its connection pool uses much less CPU time if many connections are open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpcore
    import httpx
else:
    try:
        import httpcore2 as httpcore
        import httpx2 as httpx
    except ModuleNotFoundError:
        import httpcore
        import httpx

__all__ = ["httpcore", "httpx"]
