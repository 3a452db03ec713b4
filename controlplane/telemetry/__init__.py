"""Tells tracing systems of deployments, by OpenTelemetry's protocol (OTLP over HTTP).

What a span is lives in the domain; nothing else here reads the store or decides what is told.
"""
