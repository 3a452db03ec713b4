"""The program, output, lazy imports and documents that all commands use.

No decisions: commands parse options, call the API and print.
"""
