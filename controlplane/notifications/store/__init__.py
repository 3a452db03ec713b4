"""Tables and repositories of notifications.

SQL only; the ports say what callers get.
"""
