"""Illegal: jobs, descriptions and calls of stores with wrong types. See `illegal_builder.py` for the marks."""

from __future__ import annotations

from chat_store import Job, MemoryStore

from chat_core import Text, Turn
from legal_stores import SOON, created


def x320_a_job_whose_kind_is_no_text() -> None:  # R: (TypeError|UsageError): .*kind
    Job(3, "1")  # E: 3|int|kind


def x321_a_job_whose_payload_is_no_object() -> None:  # R: (TypeError|UsageError): .*payload
    Job("index", "1", [1])  # E: list|Mapping


def x322_a_job_without_a_key() -> None:  # R: TypeError: .*key
    Job("index")  # E: key


def x323_a_job_is_not_changed() -> None:  # R: FrozenInstanceError: .*kind
    SOON.kind = "answer"  # E: kind|frozen|read-only


async def x324_a_description_with_an_unknown_field() -> None:  # R: (TypeError|UsageError): .*titel
    async with MemoryStore() as store:
        await store.apply(await created(store), meta={"titel": "Parcel"})  # E: titel|MetaChanges


async def x325_a_job_by_its_name() -> None:  # R: (TypeError|UsageError): .*jobs
    async with MemoryStore() as store:
        await store.close(await created(store), jobs=["index"])  # E: str|Job


async def x326_a_post_without_a_key() -> None:  # R: TypeError: .*key
    async with MemoryStore() as store:
        await store.post(await created(store), Turn([Text("More.")]))  # E: key


async def x327_a_job_that_was_perhaps_not_taken() -> None:  # R: AttributeError: .*payload
    async with MemoryStore() as store, store.take_job("index") as job:
        print(job.payload)  # E: payload


async def x328_a_redaction_without_a_reason() -> None:  # R: TypeError: .*reason
    async with MemoryStore() as store:
        await store.redact(await created(store), 0, by="dpo")  # E: reason


async def x329_a_fork_to_a_turn_by_name() -> None:  # R: (TypeError|UsageError): .*
    async with MemoryStore() as store:
        await store.fork(await created(store), "1")  # E: str|int


async def x330_a_conversation_without_its_messages() -> None:  # R: (TypeError|UsageError): .*
    async with MemoryStore() as store:
        await store.create([Turn([Text("Hi.")])])  # E: list|Messages


async def x331_jobs_in_an_unknown_state() -> None:  # R: (TypeError|UsageError): .*state
    async with MemoryStore() as store:
        await created(store)
        await store.jobs(state="waiting")  # E: waiting|JobState
