"""Output, options and connections that all commands use.

No decisions: commands parse options, call the API and print.
"""
