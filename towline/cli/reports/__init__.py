"""Commands on the audit log, notifications, open requests and the history of the fleet.

No decisions: commands parse options, call the API and print.
"""
