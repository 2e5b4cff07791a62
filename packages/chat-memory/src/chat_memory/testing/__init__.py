"""A conformance suite for authors of memories. Its dependencies are in the extra `chat-memory[testing]`."""

from chat_memory.testing._fixtures import Memories, MemoryFactory
from chat_memory.testing.memory_conformance import SCENARIOS, MemoryConformance, Scenario, run_scenario

__all__ = ["SCENARIOS", "Memories", "MemoryConformance", "MemoryFactory", "Scenario", "run_scenario"]
