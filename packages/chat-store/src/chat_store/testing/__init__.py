"""A conformance suite for authors of stores. Its dependencies are in the extra `chat-store[testing]`."""

from chat_store.testing._fixtures import Clock, StoreFactory, Stores
from chat_store.testing.store_conformance import SCENARIOS, Scenario, StoreConformance, run

__all__ = ["SCENARIOS", "Clock", "Scenario", "StoreConformance", "StoreFactory", "Stores", "run"]
