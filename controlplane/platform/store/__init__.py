"""SQL for all nouns: transactions, generic repositories, columns and engines.

No table of a noun.
"""
