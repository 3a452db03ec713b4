"""`towline apply`: manifests, their plan and the differences.

No decisions: commands parse options, call the API and print.
"""
