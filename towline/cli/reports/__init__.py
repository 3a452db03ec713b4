"""Commands on the audit log, notifications and open requests.

No decisions: commands parse options, call the API and print.
"""
