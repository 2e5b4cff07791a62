"""Batches of conversations, which a provider answers together within hours and at a lower price."""

from chat_batches.batches import Batches
from chat_batches.handle import BatchHandle, BatchMember
from chat_batches.jobs import BatchJobs
from chat_batches.models import NewMessageError
from chat_batches.record import BatchReport
from chat_batches.results import BatchResult, BatchResults

__all__ = [
    "BatchHandle",
    "BatchJobs",
    "BatchMember",
    "BatchReport",
    "BatchResult",
    "BatchResults",
    "Batches",
    "NewMessageError",
]
