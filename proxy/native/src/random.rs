//! Random values for tests, equal in each run with the same `FUZZ_SEED` of the environment.

/// SplitMix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        let of_run = std::env::var("FUZZ_SEED").ok().and_then(|seed| seed.parse().ok());
        Self(seed ^ (of_run.unwrap_or(0_u64) << 16))
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.number() % limit as u64) as usize
    }

    pub fn bytes<const SIZE: usize>(&mut self) -> [u8; SIZE] {
        std::array::from_fn(|_| self.number() as u8)
    }

    /// Bytes of an alphabet, fewer than `limit`.
    pub fn text(&mut self, alphabet: &[u8], limit: usize) -> Vec<u8> {
        (0..self.below(limit)).map(|_| *self.choice(alphabet)).collect()
    }

    pub fn choice<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Cuts data into pieces of fewer than `limit` bytes, which are not empty.
    pub fn cut<'a>(&mut self, data: &'a [u8], limit: usize) -> Vec<&'a [u8]> {
        let (mut pieces, mut rest) = (Vec::new(), data);
        while !rest.is_empty() {
            let (piece, more) = rest.split_at((1 + self.below(limit - 1)).min(rest.len()));
            pieces.push(piece);
            rest = more;
        }
        pieces
    }

    /// Changes, inserts, removes or doubles some bytes.
    pub fn mutate(&mut self, data: &mut Vec<u8>, alphabet: &[u8]) {
        for _ in 0..1 + self.below(4) {
            let index = self.below(data.len());
            match self.below(5) {
                0 => data[index] = self.number() as u8,
                1 => data[index] = *self.choice(alphabet),
                2 => data.insert(index, *self.choice(alphabet)),
                3 if data.len() > 1 => drop(data.remove(index)),
                _ => data.extend_from_within(index..),
            }
        }
    }
}
