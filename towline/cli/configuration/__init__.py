"""Commands on contexts and configuration flow.

No decisions: commands parse options, call the API and print.
"""
