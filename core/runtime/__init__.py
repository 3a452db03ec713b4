"""Runtime of all processes: time, tasks, signals, logs.

No domain logic here.
"""
