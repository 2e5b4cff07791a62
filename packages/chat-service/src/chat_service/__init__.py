"""A service that makes agents available over HTTP, with sessions, durable runs and event streams."""

from chat_service.authentication import BearerTokens, hash_token
from chat_service.request_log import JsonFormatter, RequestIdFilter, configure_logging
from chat_service.service import Service
from chat_service.session_routes import CloseJobs
from chat_service.settings import ServiceSettings

__all__ = [
    "BearerTokens",
    "CloseJobs",
    "JsonFormatter",
    "RequestIdFilter",
    "Service",
    "ServiceSettings",
    "configure_logging",
    "hash_token",
]
