"""Audit rows, metrics, counts of open requests and terminal recordings of requests."""
