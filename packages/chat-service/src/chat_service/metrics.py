"""Metrics of a service in the text format of Prometheus.

This module does not use a client library, because the values are a few counters, and a library would add a registry
that all services of the process share.
"""

from __future__ import annotations

from typing import Final, final

from chat_inbox.http_errors import HTTPError
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from chat_service.chat_routes import PrincipalResolver
from chat_service.context import ServiceContext
from chat_service.run_records import RUN_JOB

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_MOST_QUEUED: Final = 1000
"""Maximum reported length of the queue. Counting a longer queue would slow down the response."""
_STATES: Final = ("answered", "paused", "failed", "cancelled")


@final
class MetricsRoutes:
    """The route for metrics. No label of a metric contains user data.

    Args:
        context: objects shared by the parts of the service.
        authenticate: function that returns the user who sent a request.
    """

    def __init__(self, context: ServiceContext, authenticate: PrincipalResolver) -> None:
        self._context = context
        self._authenticate = authenticate

    def routes(self) -> list[Route]:
        """Return the route."""
        return [Route("/metrics", self.show, methods=["GET"])]

    async def show(self, request: Request) -> Response:
        """Return the metrics to a user with the role `metrics_role`."""
        principal = await self._authenticate(request)
        role = self._context.settings.metrics_role or None  # no user has the role None
        if role not in principal.roles:
            raise HTTPError(403, "You may not read the metrics: the setting `metrics_role` names the role that may.")
        return PlainTextResponse(await self._write(), media_type=MEDIA_TYPE)

    async def _write(self) -> str:
        counters = self._context.counters
        queued = await self._context.store.jobs(kind=RUN_JOB, state="queued", limit=_MOST_QUEUED)
        ended = {f'state="{state}"': counters.ended[state] for state in _STATES}
        tokens = {'kind="input"': counters.input_tokens, 'kind="output"': counters.output_tokens}
        return "".join(
            [
                _format_metric(
                    "queued_runs", "gauge", f"Queued runs in the store, at most {_MOST_QUEUED}", {"": len(queued)}
                ),
                _format_metric("running_runs", "gauge", "Runs that this process executes", {"": counters.running}),
                _format_metric("ended_runs_total", "counter", "Ends of runs in this process, by state", ended),
                _format_metric(
                    "open_followers", "gauge", "Open event streams of runs", {"": self._context.live.followers}
                ),
                _format_metric("open_sockets", "gauge", "Open WebSocket connections", {"": counters.sockets}),
                _format_metric("model_calls_total", "counter", "Responses of models", {"": counters.model_calls}),
                _format_metric("tokens_total", "counter", "Tokens that models have reported", tokens),
            ]
        )


def _format_metric(name: str, kind: str, text: str, values: dict[str, int]) -> str:
    full = f"chat_service_{name}"
    lines = [f"{full}{{{labels}}} {value}\n" if labels else f"{full} {value}\n" for labels, value in values.items()]
    return f"# HELP {full} {text}.\n# TYPE {full} {kind}\n{''.join(lines)}"
