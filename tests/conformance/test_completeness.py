"""Each capability of providers has a scenario that checks it, and each scenario checks a capability."""

from __future__ import annotations

import inspect

from chat_core.provider import CompletionProvider, EmbeddingsProvider, ProviderStream, StreamProvider
from chat_testing import SCENARIOS, Capabilities
from chat_testing.conformance.capabilities import CLAIMS

PROMISES: dict[str, set[str]] = {
    # CompletionProvider
    "complete(): ask once": {"text", "words_in_order", "two_at_once", "one_request"},
    "complete(): a cancellation ends the call": {"cancelled_request"},
    "complete(): the turn's tools are Pending": {"call", "no_arguments", "broken_arguments", "parallel_calls"},
    "complete(): raises ChatError": {
        "connection",
        "truncated_body",
        "nonsense_body",
        "error_class",
        "error_of_a_gateway",
    },
    "metadata: what this provider is": {"ownership", "secrets"},
    "metadata: a provider with another name is another provider": {"provider_name", "cached_turns"},
    "metadata: a transport belongs to the caller": {"caller_transport"},
    # StreamProvider
    "stream(): ask once, and listen": {"deltas", "piece_by_piece", "call_deltas", "cut_anywhere"},
    "stream(): leaving the block closes the connection at once": {"left_early", "cancelled"},
    "stream(): raises ChatError on entering": {"connection", "error_class", "error_on_entry"},
    # ProviderStream
    "__aiter__(): raises ChatError where the connection broke": {"broken_connection"},
    "__aiter__(): raises ChatError where the server said that it failed": {
        "failure_in_stream",
        "events_before_an_error",
    },
    "__aiter__(): no delta has half of a character": {"split_characters"},
    "close(): the whole turn": {"text", "exact_answer", "exact_call", "order", "finish_reason", "usage"},
    "close(): texts and calls in the order of the response": {"text_after_a_call"},
    "close(): raises StreamTruncatedError": {"truncation", "truncated_call"},
    "close(): raises InvalidResponse": {"malformed_frame", "nonsense_events"},
    "close(): an invalid response names its field": {"field_paths"},
    "partial(): the turn as far as it has come": {"partial"},
    # EmbeddingsProvider
    "embed(): one request, n texts in, n vectors out, in order": {"embeddings", "embeddings_missing"},
    "embed(): with whatever usage was reported": {"embeddings_usage"},
    "embed(): with the timeout of its options": {"embeddings_timeout"},
    # What goes in
    "messages: a request is never sent while a call is unresolved": {"pending"},
    "messages: a call and its result go back": {"results", "failures", "result_files", "call_ids", "result_ids"},
    "messages: a call keeps the name of its tool, and a failure is no result": {"call_names", "failure_marks"},
    "messages: each text keeps its role and its characters": {"roles", "exact_text"},
    "messages: any result is sent, and what an approver changed is told": {"json_results", "edited_calls"},
    "messages: sequential calls stay sequential": {"calls_in_turn"},
    "messages: parallel calls stay parallel": {"parallel_results"},
    "messages: what was thought goes back where it came from": {"reasoning", "reasoning_replay"},
    "messages: nothing is dropped in silence": {"files", "unsupported_parts", "result_files", "foreign_words"},
    "messages: what is opaque to another provider stays at home": {"foreign_data", "reasoning_elsewhere"},
    "messages: a value is sent as JSON, and own parts are sent back": {"structured_parts", "own_parts"},
    "messages: nothing of them is kept or changed": {"state", "untouched"},
    "messages: a pause can be stored and resumed": {"pause"},
    "tools: all of them are declared": {"declarations", "undeclared_tools"},
    "options: each is sent or refused": {"options", "instructions", "tool_choice", "timeout", "foreign_options"},
    "structured_output: the schema is sent, and its answer read": {"schema_sent", "structured"},
    # What comes from a server
    "a response of any shape is an error or can be stored and sent back": {"mutated_responses"},
    "unknown fields and events never break decoding": {"unknown_fields", "unknown_events", "content_types"},
    "refusals say whether and when to try again": {"error_retryable", "error_wait", "error_request_id"},
}


def test_every_promise_has_a_scenario() -> None:
    names = {scenario.name for scenario in SCENARIOS}

    assert [promise for promise, scenarios in PROMISES.items() if not scenarios or scenarios - names] == []


def test_every_scenario_belongs_to_a_promise() -> None:
    looked_at = {name for scenarios in PROMISES.values() for name in scenarios}

    assert looked_at == {scenario.name for scenario in SCENARIOS}


def test_every_protocol_method_has_a_promise() -> None:
    protocols = (CompletionProvider, StreamProvider, ProviderStream, EmbeddingsProvider)
    methods = {
        name
        for protocol in protocols
        for name, value in vars(protocol).items()
        if (name == "__aiter__" or not name.startswith("_"))
        and (inspect.isfunction(value) or isinstance(value, property))
    }
    promised = {promise.partition(":")[0].removesuffix("()") for promise in PROMISES}

    assert methods <= promised


def test_every_argument_of_complete_has_a_promise() -> None:
    arguments = set(inspect.signature(CompletionProvider.complete).parameters) - {"self"}

    assert arguments <= {promise.partition(":")[0] for promise in PROMISES}


def test_every_claim_is_needed_by_a_scenario() -> None:
    needed = {claim for scenario in SCENARIOS for claim in scenario.needs}

    assert needed == set(CLAIMS)


def test_an_embeddings_only_provider_is_tested_by_the_general_scenarios() -> None:
    claimed = [
        scenario.name for scenario in SCENARIOS if scenario.is_claimed(Capabilities(text=False, embeddings=True))
    ]

    assert {"embeddings", "embeddings_missing", "error_class", "connection", "secrets"} <= set(claimed)
