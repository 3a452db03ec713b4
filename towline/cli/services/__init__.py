"""Commands on services and their objects.

No decisions: commands parse options, call the API and print.
"""
