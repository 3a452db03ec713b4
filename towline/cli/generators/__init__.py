"""Commands on global services, service sets and managed namespaces.

No decisions: commands parse options, call the API and print.
"""
