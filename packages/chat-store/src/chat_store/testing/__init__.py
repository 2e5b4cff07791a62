"""A conformance suite for authors of stores. Install the extra `chat-store[testing]` to use it."""

from chat_store.testing._fixtures import Clock, StoreFactory, Stores
from chat_store.testing.store_conformance import SCENARIOS, Scenario, StoreConformance, run

__all__ = ["SCENARIOS", "Clock", "Scenario", "StoreConformance", "StoreFactory", "Stores", "run"]
