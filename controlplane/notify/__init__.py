"""Sends HTTP requests and syslog messages to addresses that users configured, except forbidden
addresses.

Contains no domain rule and no store; callers decide on content and retries.
"""
