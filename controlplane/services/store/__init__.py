"""Tables and repositories of services.

SQL only; the ports say what callers get.
"""
