"""Tables and repositories of reports.

SQL only; the ports say what callers get.
"""
