"""Exports spans to an OpenTelemetry collector with OpenTelemetry's own SDK (the extra `otel`)."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from controlplane.reports.model.spans import Span
from core import __version__
from core.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

_TIMEOUT_SECONDS = 10


class OtlpSpans:
    """Sends spans to `url` (`http://collector:4318/v1/traces`). Invalid: the extra is missing."""

    def __init__(self, url: str, headers: dict[str, str], ca_file: Path | None = None) -> None:
        if find_spec("opentelemetry") is None:
            raise Invalid("traces need OpenTelemetry: pip install 'towline[otel]'", field="traces")
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource

        self._exporter = OTLPSpanExporter(
            endpoint=url,
            headers=headers,
            certificate_file=str(ca_file) if ca_file else None,
            timeout=_TIMEOUT_SECONDS,
        )
        self._resource = Resource({"service.name": "towline", "service.version": __version__})

    async def export(self, spans: Sequence[Span]) -> None:
        """Sends spans. Raises Unavailable if the collector did not accept them within 10 s."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        readable_spans = [self._to_readable_span(span) for span in spans]
        result = await asyncio.to_thread(self._exporter.export, readable_spans)
        if result is not SpanExportResult.SUCCESS:
            raise Unavailable("the trace collector did not accept the spans")

    def close(self) -> None:
        """Closes the connection."""
        self._exporter.shutdown()

    def _to_readable_span(self, span: Span) -> "ReadableSpan":
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

        def context(span_id: int) -> SpanContext:
            return SpanContext(span.trace_id, span_id, False, TraceFlags(TraceFlags.SAMPLED))

        status = Status(StatusCode.ERROR, span.problem) if span.problem else Status(StatusCode.OK)
        return ReadableSpan(
            span.name,
            context(span.span_id),
            context(span.parent_id) if span.parent_id else None,
            self._resource,
            dict(span.attributes),
            kind=SpanKind.INTERNAL,
            status=status,
            start_time=_nanoseconds(span.start),
            end_time=_nanoseconds(span.end),
        )


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000) * 1_000
