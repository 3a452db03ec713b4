"""Commands for operators, on the host of the control plane.

No decisions: commands parse options, call the API and print.
"""
