"""Exports traces of deployments with OpenTelemetry's protocol (OTLP over HTTP).

The domain defines the spans; this package neither reads the store nor selects deployments.
"""
