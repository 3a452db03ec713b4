"""What reads strangers' bytes at the proxy, as functions that raise where a rule is broken.

Neither fixtures nor servers: the rules stand here once, for the tests and for `make fuzz`.
"""
