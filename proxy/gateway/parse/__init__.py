"""Stage 1: parses the head of a request. Result: `ParsedRequest`."""
