"""The tables of docs/reference/presets.md, generated from the presets: `python -m tests.project.presets_page`."""

from __future__ import annotations

from typing import Final

from chat_completions import PRESETS, FixedEmbeddings, NoEmbeddings, SizedEmbeddings
from chat_completions.presets import AnyPreset
from chat_openai.presets import VENDORS

ALL: Final[tuple[AnyPreset, ...]] = tuple(
    sorted([*PRESETS.values(), *(vendor.preset for vendor in VENDORS.values())], key=lambda preset: preset.name)
)

DIFFERENCES: Final = {
    "max_tokens_field": "the output limit is sent as `{}`",
    "seed_field": "the seed is sent as `{}`",
    "reasoning_style": "reasoning: {}",
    "reasoning_field": "reasoning in the history is sent as `{}`",
    "reasoning_required": "a message with calls always has the reasoning field",
    "structured": "structured output: {}",
    "structured_with_tools": "the schema of an output is sent in the prompt if there are tools",
    "mixed_strict_tools": "tools are strict only if all can be",
    "strict_rewrite": "schemas are sent unchanged",
    "stream_usage": "`stream_options` is not sent",
    "short_call_ids": "call ids have nine letters and digits",
    "tools": "no tools",
    "files": "files: {}",
    "url_files": "files by URL: {}",
    "top_k": "`top_k` is sent",
    "refuses": "unsupported options: {}",
    "dimensions_field": "the vector length is sent as `{}`",
    "join_messages": "consecutive messages of one role are joined",
    "assistant_after_tools": "an assistant message is sent between tool results and a user message",
    "system_first": "all system messages are sent at the beginning",
}
VALUES: Final = {
    "object": "the object `reasoning` with an effort or a budget",
    "thinking": "an effort, or `thinking` to disable it",
    "json_object": "JSON mode, with the schema in the prompt",
}
EMBEDDINGS: Final = {NoEmbeddings(): "no", FixedEmbeddings(): "yes", SizedEmbeddings(): "yes, with a chosen length"}
FACTS: Final = {
    "base_url": "base URL",
    "base_url_variable": "environment variable of the base URL",
    "key_variables": "environment variable of the key",
    "key_header": "header of the key",
    "embeddings": "embeddings",
    "error_patterns": "error messages",
    "notes": "notes",
    "max_tokens_field": "field of the output limit",
    "seed_field": "seed",
    "reasoning_style": "request of reasoning",
    "reasoning_field": "field for reasoning",
    "reasoning_required": "reasoning with calls",
    "structured": "structured output",
    "structured_with_tools": "structured output with tools",
    "mixed_strict_tools": "strict tools",
    "strict_rewrite": "schemas",
    "stream_usage": "`stream_options`",
    "short_call_ids": "call ids",
    "tools": "tools",
    "files": "files",
    "url_files": "files by URL",
    "top_k": "`top_k`",
    "refuses": "unsupported options",
    "dimensions_field": "vector length",
    "join_messages": "joined messages",
    "assistant_after_tools": "message after tool results",
    "system_first": "system messages",
}
NEVER_RECORDED: Final = {"base_url_variable", "key_variables"}
"""Facts that recorded traffic cannot confirm. For a server that users run themselves, the address is another one."""


def vendor_rows() -> list[str]:
    """Return the rows of the table of vendors."""
    return [
        f"| {preset.title} | `{preset.name}` | {_address(preset)} | {_key(preset)} | {EMBEDDINGS[preset.embeddings]} "
        f"| {_differences(preset)} | {'yes' if preset.recorded else 'no recording'} |"
        for preset in ALL
    ]


def source_rows() -> list[str]:
    """Return the rows of the table of sources: each page of a vendor, and then what no page is known for."""
    rows: list[str] = []
    for preset in ALL:
        for source in preset.sources:
            page = f"[{source.title}]({source.url})"
            rows.append(f"| {preset.title} | {_names(list(source.facts))} | {page} | {source.checked} |")
        uncited = [fact for fact in preset.facts if preset.source_of(fact) is None]
        hidden = {*NEVER_RECORDED, "base_url"} if preset.own_server else NEVER_RECORDED
        recorded = [fact for fact in uncited if preset.recorded and fact not in hidden]
        unknown = [fact for fact in uncited if fact not in recorded]
        if recorded:
            rows.append(f"| {preset.title} | {_names(recorded)} | recorded traffic | - |")
        if unknown:
            rows.append(f"| {preset.title} | {_names(unknown)} | none found | - |")
    return rows


def _address(preset: AnyPreset) -> str:
    named = f" or `{preset.base_url_variable}`" if preset.base_url_variable else ""
    return f"`{preset.base_url}`{named}" if preset.base_url else f"yours, `{preset.base_url_variable}`"


def _key(preset: AnyPreset) -> str:
    if not preset.key_variables:
        return "none is needed"
    header = "" if preset.key_header == "authorization" else f", in the header `{preset.key_header}`"
    return f"`{'`, `'.join(preset.key_variables)}`{header}{'' if preset.key_needed else '; not always needed'}"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join([str(item) for item in value]) or "none"  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - JSON
    return VALUES.get(str(value), str(value))


def _differences(preset: AnyPreset) -> str:
    differences = [DIFFERENCES[name].format(_shown(value)) for name, value in preset.differences.items()]
    return "; ".join([*differences, *preset.notes])


def _names(facts: list[str]) -> str:
    return ", ".join([FACTS[fact] for fact in facts])


if __name__ == "__main__":
    print("\n".join([*vendor_rows(), "", *source_rows()]))
