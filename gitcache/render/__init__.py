"""From files to objects, in worker processes that may be killed at any moment.

No network, no git and no clock in a worker: it is given bytes and answers with bytes.
"""
