"""Real servers that tests talk to: started by the run, gone with it.

Fixtures are in `tests/conftest.py`; nothing here knows a part of Towline.
"""
