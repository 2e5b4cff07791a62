"""What every store must do, for authors of stores."""

from chat_store.testing._trial import Clock, StoreFactory, Stores
from chat_store.testing.store_conformance import SCENARIOS, Scenario, StoreConformance, run

__all__ = ["SCENARIOS", "Clock", "Scenario", "StoreConformance", "StoreFactory", "Stores", "run"]
