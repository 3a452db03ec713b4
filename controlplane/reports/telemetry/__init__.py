"""Export of traces with OpenTelemetry.

Optional; the extra `otel`.
"""
