"""Background work of reports.

When, not what: the operations decide.
"""
