"""Requests to addresses that users give.

Every address passes the guard.
"""
