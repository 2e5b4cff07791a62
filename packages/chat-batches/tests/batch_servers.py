"""Servers of the batch APIs, which behave as the vendors document. They were not compared with recorded traffic.

Sources: https://platform.claude.com/docs/en/build-with-claude/batch-processing and the types of the official SDKs.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

from chat_testing import Exchange

Json: TypeAlias = dict[str, Any]
PATTERN = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass
class StoredBatch:
    """A batch that a server has received.

    Attributes:
        id: id of the batch.
        requests: bodies of the requests by their id, in order.
        created_at: time of creation.
        polls: number of polls so far.
        cancelled: whether the batch was cancelled.
        extra: further fields.
    """

    id: str
    requests: dict[str, Json]
    created_at: datetime
    polls: int = 0
    cancelled: bool = False
    extra: Json = field(default_factory=dict[str, Any])


class BatchServer(ABC):
    """Base class of the servers, for use as the handler of a `LoopbackServer`.

    Attributes:
        batches: received batches, oldest first.
        polls: number of polls before a batch ends.
        log: method and path of each request.
        failures: number of next requests that fail with status 503.
        refuse: whether new batches are refused with status 400.
        lose: whether the connection is reset after a batch was created.
        lines: changes the lines of the results before they are sent.
        now: clock of the server.
        answer: returns the text or the call that answers a request: `answer(id, body)`.
    """

    def __init__(self) -> None:
        self.batches: list[StoredBatch] = []
        self.polls = 1
        self.log: list[str] = []
        self.failures = 0
        self.refuse = False
        self.lose = False
        self.lines: Callable[[list[bytes]], bytes] = b"".join
        self.now: Callable[[], datetime] = lambda: datetime.now(UTC)
        self.answer: Callable[[str, Json], str | Json] = lambda id_, _: f"Answer {id_.rpartition('-')[2]}."
        self.used: list[Json] = []

    def __call__(self, exchange: Exchange) -> None:
        url = urlsplit(exchange.path)
        self.log.append(f"{exchange.method} {url.path}")
        if self.failures:
            self.failures -= 1
            exchange.answer(503, {}, b'{"error": {"message": "Busy."}}')
            return
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        self.handle(exchange, url.path, query)

    @abstractmethod
    def handle(self, exchange: Exchange, path: str, query: dict[str, str]) -> None:
        """Respond to a request."""

    def add(self, requests: dict[str, Json], **extra: Any) -> StoredBatch:
        """Store a new batch."""
        batch = StoredBatch(f"batch_{len(self.batches) + 1}", requests, self.now(), extra=extra)
        self.batches.append(batch)
        return batch

    def find(self, id_: str) -> StoredBatch | None:
        return next((batch for batch in self.batches if batch.id == id_), None)

    def has_ended(self, batch: StoredBatch) -> bool:
        return batch.polls > self.polls

    def respond(self, exchange: Exchange, value: object, status: int = 200) -> None:
        exchange.answer(status, {"content-type": "application/json"}, json.dumps(value).encode())


class ClaudeServer(BatchServer):
    """The Message Batches API.

    Attributes:
        results: results of requests by their index, instead of an answer: `errored`, `canceled` or `expired`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.results: dict[int, str] = {}

    def handle(self, exchange: Exchange, path: str, query: dict[str, str]) -> None:
        id_, _, action = path.removeprefix("/v1/messages/batches").strip("/").partition("/")
        batch = self.find(id_)
        if path == "/v1/messages":
            self.respond(exchange, self.message("direct", json.loads(exchange.body)))
        elif not id_ and exchange.method == "POST":
            self.create(exchange)
        elif not id_:
            self.respond(exchange, self.page(query))
        elif batch is None:
            self.respond(exchange, error("not_found_error", "No such batch."), 404)
        elif action == "cancel":
            batch.cancelled = True
            self.respond(exchange, self.describe(batch))
        elif action == "results":
            self.send_results(exchange, batch)
        else:
            batch.polls += 1
            self.respond(exchange, self.describe(batch))

    def create(self, exchange: Exchange) -> None:
        entries: list[Json] = json.loads(exchange.body)["requests"]
        ids = [entry["custom_id"] for entry in entries]
        if self.refuse or not all(PATTERN.fullmatch(id_) for id_ in ids) or len(set(ids)) < len(ids):
            self.respond(exchange, error("invalid_request_error", "The batch is invalid."), 400)
            return
        batch = self.add({entry["custom_id"]: entry["params"] for entry in entries})
        if self.lose:
            exchange.reset()
            return
        self.respond(exchange, self.describe(batch))

    def page(self, query: dict[str, str]) -> Json:
        newest_first = list(reversed(self.batches))
        if "after_id" in query:
            ids = [batch.id for batch in newest_first]
            newest_first = newest_first[ids.index(query["after_id"]) + 1 :]
        shown = newest_first[: int(query.get("limit", 20))]
        return {"data": [self.describe(batch) for batch in shown], "has_more": len(shown) < len(newest_first)}

    def describe(self, batch: StoredBatch) -> Json:
        ended = self.has_ended(batch)
        kinds = [self.result_kind(batch, index) for index in range(len(batch.requests))]
        counts = {kind: kinds.count(kind) if ended else 0 for kind in ("succeeded", "errored", "canceled", "expired")}
        state = "ended" if ended else "canceling" if batch.cancelled else "in_progress"
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": state,
            "request_counts": {**counts, "processing": 0 if ended else len(kinds)},
            "created_at": batch.created_at.isoformat().replace("+00:00", "Z"),
            "cancel_initiated_at": batch.created_at.isoformat() if batch.cancelled else None,
            "results_url": f"https://elsewhere.example/{batch.id}" if ended else None,
        }

    def result_kind(self, batch: StoredBatch, index: int) -> str:
        return self.results.get(index, "canceled" if batch.cancelled else "succeeded")

    def send_results(self, exchange: Exchange, batch: StoredBatch) -> None:
        lines: list[bytes] = []
        for index, (id_, params) in enumerate(batch.requests.items()):
            kind = self.result_kind(batch, index)
            result: Json = {"type": kind}
            if kind == "succeeded":
                result["message"] = self.message(id_, params)
            elif kind == "errored":
                result["error"] = error("invalid_request_error", "max_tokens: too large")
            lines.append(json.dumps({"custom_id": id_, "result": result}).encode() + b"\n")
        exchange.answer(200, {"content-type": "application/x-jsonl"}, self.lines(lines[::-1]))

    def message(self, id_: str, params: Json) -> Json:
        answer = self.answer(id_, params)
        self.used.append(params)
        content = {"type": "text", "text": answer} if isinstance(answer, str) else {"type": "tool_use", **answer}
        return {
            "id": f"msg_{id_}_{len(params['messages'])}",
            "type": "message",
            "role": "assistant",
            "model": params["model"],
            "content": [content],
            "stop_reason": "end_turn" if isinstance(answer, str) else "tool_use",
            "usage": {"input_tokens": 7, "output_tokens": 2},
        }


def error(kind: str, message: str) -> Json:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


class OpenAIServer(BatchServer):
    """The Batch API and the files of OpenAI.

    Attributes:
        files: content of the files by their id.
        expire: indexes of requests that expire.
        refused: indexes of requests that the model refuses with status 400.
    """

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, bytes] = {}
        self.expire: set[int] = set()
        self.refused: set[int] = set()

    def handle(self, exchange: Exchange, path: str, query: dict[str, str]) -> None:
        match [exchange.method, *path.strip("/").split("/")[1:]]:
            case ["POST", "files"]:
                self.respond(exchange, {"id": self.store_upload(exchange), "object": "file"})
            case ["GET", "files", id_, "content"]:
                exchange.answer(200, {"content-type": "application/octet-stream"}, self.files[id_])
            case ["POST", "batches"]:
                self.create(exchange)
            case ["GET", "batches"]:
                self.respond(exchange, self.page(query))
            case ["GET", "batches", id_] if (batch := self.find(id_)) is not None:
                batch.polls += 1
                self.respond(exchange, self.describe(batch))
            case ["POST", "batches", id_, "cancel"] if (batch := self.find(id_)) is not None:
                batch.cancelled = True
                self.respond(exchange, self.describe(batch))
            case ["POST", "responses" | "chat", *_]:
                body = json.loads(exchange.body)
                self.respond(exchange, self.response(path, "direct", body))
            case _:
                self.respond(exchange, error("not_found_error", "There is no such object."), 404)

    def store_upload(self, exchange: Exchange) -> str:
        """Store the file of a form, as `multipart/form-data` has it."""
        message = BytesParser(policy=HTTP).parsebytes(
            f"Content-Type: {exchange.headers['content-type']}\r\n\r\n".encode() + exchange.body
        )
        parts = {part.get_param("name", header="content-disposition"): part for part in message.iter_parts()}
        assert parts["purpose"].get_payload(decode=True) == b"batch"
        id_ = f"file-{len(self.files) + 1}"
        content = parts["file"].get_payload(decode=True)
        assert isinstance(content, bytes)
        self.files[id_] = content
        return id_

    def create(self, exchange: Exchange) -> None:
        body = json.loads(exchange.body)
        assert body["completion_window"] == "24h"
        lines = [json.loads(line) for line in self.files[body["input_file_id"]].splitlines()]
        assert all(line["method"] == "POST" and line["url"] == body["endpoint"] for line in lines)
        requests = {line["custom_id"]: line["body"] for line in lines}
        batch = self.add(requests, metadata=body["metadata"], endpoint=body["endpoint"])
        if self.lose:
            exchange.reset()
            return
        self.respond(exchange, self.describe(batch))

    def page(self, query: dict[str, str]) -> Json:
        newest_first = list(reversed(self.batches))
        if "after" in query:
            newest_first = newest_first[[batch.id for batch in newest_first].index(query["after"]) + 1 :]
        shown = newest_first[: int(query.get("limit", 20))]
        return {
            "object": "list",
            "data": [self.describe(batch) for batch in shown],
            "has_more": len(shown) < len(newest_first),
        }

    def describe(self, batch: StoredBatch) -> Json:
        described: Json = {
            "id": batch.id,
            "object": "batch",
            "endpoint": batch.extra["endpoint"],
            "input_file_id": "file-1",
            "completion_window": "24h",
            "created_at": int(batch.created_at.timestamp()),
            "metadata": batch.extra["metadata"],
            "status": "cancelling" if batch.cancelled else "in_progress",
        }
        if self.refuse:
            message = {"code": "invalid_json_line", "message": "This line is not JSON.", "line": 1, "param": None}
            return {**described, "status": "failed", "errors": {"object": "list", "data": [message]}}
        if not self.has_ended(batch):
            return described
        status = "cancelled" if batch.cancelled else "expired" if self.expire else "completed"
        return {**described, "status": status, **self.output(batch)}

    def output(self, batch: StoredBatch) -> Json:
        outputs: list[Json] = []
        errors: list[Json] = []
        for index, (id_, body) in enumerate(batch.requests.items()):
            head = {"id": f"batch_req_{index}", "custom_id": id_}
            if index in self.expire:
                expired = {"code": "batch_expired", "message": "The request was not processed in time."}
                errors.append({**head, "response": None, "error": expired})
            elif index in self.refused:
                refused = {"error": {"message": "Too long.", "code": "context_length_exceeded"}}
                errors.append({**head, "response": {"status_code": 400, "body": refused}, "error": None})
            elif not batch.cancelled:
                response = self.response(batch.extra["endpoint"], id_, body)
                outputs.append({**head, "response": {"status_code": 200, "body": response}, "error": None})
        for name, lines in (("output", outputs), ("error", errors)):
            self.files[f"{name}-{batch.id}"] = self.lines([json.dumps(line).encode() + b"\n" for line in lines[::-1]])
        return {
            "output_file_id": f"output-{batch.id}" if outputs else None,
            "error_file_id": f"error-{batch.id}" if errors else None,
            "request_counts": {"total": len(batch.requests), "completed": len(outputs), "failed": len(errors)},
        }

    def response(self, endpoint: str, id_: str, body: Json) -> Json:
        self.used.append(body)
        answer = self.answer(id_, body)
        if endpoint.endswith("/responses"):
            item: Json = {"type": "message", "id": "i", "content": [{"type": "output_text", "text": answer}]}
            if not isinstance(answer, str):
                item = {"type": "function_call", "id": "i", **answer}
            usage = {"input_tokens": 7, "output_tokens": 2}
            length = len(body["input"])
            return {"id": f"resp_{id_}_{length}", "status": "completed", "output": [item], "usage": usage}
        message: Json = {"role": "assistant", "content": answer}
        usage = {"prompt_tokens": 7, "completion_tokens": 2}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return {"id": f"chatcmpl_{id_}", "choices": [choice], "usage": usage}


class GeminiServer(BatchServer):
    """The batches and files of the Gemini API.

    Attributes:
        files: content of the files by their name.
        states: states of requests by their index that have an error.
        state: state in which batches end.
        keys: whether inline responses contain the key of their request.
        upload_host: host of the upload URL, instead of this server's.
    """

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, bytes] = {}
        self.errors: set[int] = set()
        self.state = "SUCCEEDED"
        self.keys = True
        self.upload_host = ""

    def handle(self, exchange: Exchange, path: str, query: dict[str, str]) -> None:
        match [exchange.method, *path.strip("/").split("/")]:
            case ["POST", "upload", "v1beta", "files"]:
                self.upload(exchange, query)
            case ["GET", "v1beta", "files", name]:
                assert query == {"alt": "media"}
                exchange.answer(200, {}, self.files[f"files/{name.removesuffix(':download')}"])
            case ["POST", "v1beta", "models", action] if action.endswith(":batchGenerateContent"):
                self.create(exchange)
            case ["POST", "v1beta", "models", _]:
                self.respond(exchange, self.response("direct", json.loads(exchange.body)))
            case ["GET", "v1beta", "batches"]:
                self.respond(exchange, self.page(query))
            case ["GET", "v1beta", "batches", id_] if (batch := self.find(f"batches/{id_}")) is not None:
                batch.polls += 1
                self.respond(exchange, self.describe(batch))
            case ["POST", "v1beta", "batches", action] if action.endswith(":cancel"):
                batch = self.find(f"batches/{action.removesuffix(':cancel')}")
                assert batch is not None
                batch.cancelled = True
                self.respond(exchange, {})
            case _:
                self.respond(exchange, {"error": {"code": 404, "status": "NOT_FOUND", "message": "No."}}, 404)

    def upload(self, exchange: Exchange, query: dict[str, str]) -> None:
        if "upload_id" in query:
            assert exchange.headers["x-goog-upload-command"] == "upload, finalize"
            name = f"files/{len(self.files) + 1}"
            self.files[name] = exchange.body
            self.respond(exchange, {"file": {"name": name}})
            return
        assert exchange.headers["x-goog-upload-command"] == "start"
        assert exchange.headers["x-goog-upload-protocol"] == "resumable"
        url = f"http://{self.upload_host or exchange.headers['host']}/upload/v1beta/files?upload_id=1"
        exchange.answer(200, {"x-goog-upload-url": url}, b"{}")

    def create(self, exchange: Exchange) -> None:
        batch = json.loads(exchange.body)["batch"]
        source = batch["inputConfig"]
        if "fileName" in source:
            lines = [json.loads(line) for line in self.files[source["fileName"]].splitlines()]
            requests = {line["key"]: line["request"] for line in lines}
        else:
            entries = source["requests"]["requests"]
            requests = {entry["metadata"]["key"]: entry["request"] for entry in entries}
        added = self.add(requests, name=batch["displayName"], by_file="fileName" in source)
        added.id = f"batches/{added.id}"
        if self.lose:
            exchange.reset()
            return
        self.respond(exchange, self.describe(added))

    def page(self, query: dict[str, str]) -> Json:
        start = int(query.get("pageToken", 0))
        shown = self.batches[start : start + int(query["pageSize"])]
        more = {"nextPageToken": str(start + len(shown))} if start + len(shown) < len(self.batches) else {}
        return {"operations": [self.describe(batch) for batch in shown], **more}

    def describe(self, batch: StoredBatch) -> Json:
        state = "RUNNING"
        output: Json = {}
        if self.has_ended(batch):
            state = "CANCELLED" if batch.cancelled else self.state
            output = {"output": self.output(batch)} if state == "SUCCEEDED" else {}
        metadata = {"displayName": batch.extra["name"], "state": f"BATCH_STATE_{state}", **output}
        operation: Json = {"name": batch.id, "metadata": metadata}
        if state == "FAILED":
            operation["error"] = {"code": 3, "status": "INVALID_ARGUMENT", "message": "The file is invalid."}
        return operation

    def output(self, batch: StoredBatch) -> Json:
        entries: list[Json] = []
        for index, (id_, body) in enumerate(batch.requests.items()):
            key: Json = {"key": id_} if batch.extra["by_file"] else {"metadata": {"key": id_}} if self.keys else {}
            if index in self.errors:
                entries.append({**key, "error": {"code": 8, "status": "RESOURCE_EXHAUSTED", "message": "Busy."}})
            else:
                entries.append({**key, "response": self.response(id_, body)})
        if not batch.extra["by_file"]:
            return {"inlinedResponses": {"inlinedResponses": entries}}
        name = f"files/output-{batch.id.rpartition('/')[2]}"
        self.files[name] = self.lines([json.dumps(entry).encode() + b"\n" for entry in entries[::-1]])
        return {"responsesFile": name}

    def response(self, id_: str, body: Json) -> Json:
        self.used.append(body)
        answer = self.answer(id_, body)
        part = {"text": answer} if isinstance(answer, str) else {"functionCall": answer}
        content = {"role": "model", "parts": [part]}
        return {
            "responseId": f"{id_}-{len(body['contents'])}",
            "candidates": [{"content": content, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 2},
        }
