//! A small deterministic fuzzer that mutates seeds in ways that break readers.

/// A pseudorandom number generator (xorshift).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit.max(1)
    }
}

/// Bytes at boundaries that readers distinguish.
const BORDERS: [u8; 12] = [0, 1, 2, 0x0a, 0x12, 0x20, 0x22, 0x7f, 0x80, 0xc3, 0xfe, 0xff];

/// Mutates `seed` in a few positions, with parts of `other`.
pub(crate) fn mutate(random: &mut Random, seed: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let end = (at + 1 + random.below(16)).min(bytes.len());
        let end = end.max(at);
        match random.below(9) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece.repeat(1 + random.below(64)));
            }
            3 => {
                let from = random.below(other.len());
                let to = (from + random.below(256)).min(other.len());
                bytes.splice(at..end, other[from..to].iter().copied());
            }
            4 => {
                // The largest possible number.
                bytes.splice(at..end, [0xff; 9].into_iter().chain([BORDERS[random.below(3)]]));
            }
            5 => bytes.splice(at..at, (0..4).map(|_| BORDERS[random.below(12)])).for_each(drop),
            _ if at == bytes.len() => {}
            6 => bytes[at] ^= 1 << random.below(8),
            7 => bytes[at] = BORDERS[random.below(BORDERS.len())],
            _ => {
                let to = random.below(bytes.len());
                bytes.swap(at, to);
            }
        }
    }
    bytes
}
