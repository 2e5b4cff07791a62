"""A chat as an agent of the AG-UI protocol 1.0."""

from chat_streams.agui.agent import AGUI, MEDIA_TYPE, AGUIRequest, ResumeEntry
from chat_streams.agui.encoder import AGUIEncoder

__all__ = ["AGUI", "MEDIA_TYPE", "AGUIEncoder", "AGUIRequest", "ResumeEntry"]
