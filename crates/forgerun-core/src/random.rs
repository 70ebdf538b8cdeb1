//! Deterministic random numbers: splitmix64. It is tiny, needs no dependency, and turns similar
//! seeds, such as times of requests, into unrelated numbers. Not for secrets.
//!
//! Changing it changes what past seeds stood for: chosen work kinds, results of simulated jobs,
//! span ids, simulator seeds.

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    pub const fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    pub const fn draw(&mut self) -> u64 {
        let number = mix(self.0);
        self.0 = self.0.wrapping_add(GAMMA);
        number
    }

    /// Below `n`; 0 if `n` is 0.
    pub const fn below(&mut self, n: u64) -> u64 {
        ((self.draw() as u128 * n as u128) >> 64) as u64
    }
}

/// Mixes the bits: every bit of the input affects every bit of the output. It is the first number
/// of the sequence with this seed.
pub const fn mix(bits: u64) -> u64 {
    let bits = bits.wrapping_add(GAMMA);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        let mut numbers = SplitMix64::new(0);
        let first: [u64; 3] = [numbers.draw(), numbers.draw(), numbers.draw()];
        assert_eq!(first, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
    }

    #[test]
    fn a_number_below_a_bound_is_below_it_and_none_is_zero() {
        let mut numbers = SplitMix64::new(7);
        assert!((0..1000).all(|_| numbers.below(3) < 3));
        assert_eq!(numbers.below(0), 0);
    }
}
