"""Verification of a chain, block by block."""

from collections.abc import Iterable

from controlplane.audit.model.blocks import AuditBlock, IndexTerm, is_intact
from controlplane.audit.model.chains import ChainBreak, ChainHead

IndexedBlock = tuple[AuditBlock, set[IndexTerm]]


class ChainVerifier:
    """Verifies a chain from its oldest remaining row to its end."""

    def __init__(self, chain: ChainHead) -> None:
        self._chain = chain
        self.number, self._hash = chain.floor, chain.floor_hash

    def verify(self, blocks: Iterable[IndexedBlock]) -> ChainBreak | None:
        """Verifies the next blocks, in the order of their numbers; returns the first break."""
        for block, terms in blocks:
            if block.first_number != self.number + 1:
                return self._break_at(self.number + 1, "is missing")
            if not is_intact(block, terms, self._hash):
                last = block.last_number
                others = f", or a row up to {last}" if last > block.first_number else ""
                return self._break_at(block.first_number, f"was altered{others}")
            self.number, self._hash = block.last_number, block.hash
        return None

    def end(self, chain: ChainHead) -> ChainBreak | None:
        """Verifies the end of the chain after all blocks; returns the break, if any.

        `chain` is the chain now, to which others may have appended since the verification began.
        """
        if self.number < self._chain.number:
            return self._break_at(
                self.number + 1, f"is missing, and all up to {self._chain.number}"
            )
        is_at_end = (self.number, self._hash) == (chain.number, chain.hash)
        if self.number >= chain.number and not is_at_end:
            return self._break_at(self.number, "does not match the recorded end of the chain")
        return None

    def _break_at(self, number: int, text: str) -> ChainBreak:
        return ChainBreak(self._chain.kind, number, text)
