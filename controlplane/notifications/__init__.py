"""Notifications: routing to sinks, delivery and commit statuses.

Nouns below publish to `NotificationOutbox`; nothing here changes them.
"""
