//! NumPy's legacy random generator for a seed: a 32-bit Mersenne Twister, with two words for each
//! float. ONNX does not specify the generator of an operator with a seed; its own evaluator uses
//! this one.

/// The number of words in the state, and the distance of the word that is mixed in.
const WORDS: usize = 624;
const MIDDLE: usize = 397;

/// The generator.
pub(crate) struct NumpyRandom {
    state: [u32; WORDS],
    next: usize,
}

impl NumpyRandom {
    /// Initializes the generator like `numpy.random.seed(seed)`.
    pub(crate) fn new(seed: u32) -> Self {
        let mut state = [seed; WORDS];
        for index in 1..WORDS {
            let before = state[index - 1];
            #[expect(clippy::cast_possible_truncation, reason = "below 624")]
            let number = index as u32;
            state[index] = (before ^ before >> 30).wrapping_mul(1_812_433_253).wrapping_add(number);
        }
        Self { state, next: WORDS }
    }

    fn word(&mut self) -> u32 {
        if self.next == WORDS {
            for index in 0..WORDS {
                let joined = self.state[index] & 0x8000_0000 | self.state[(index + 1) % WORDS] & 0x7fff_ffff;
                let odd = if joined & 1 == 0 { 0 } else { 0x9908_b0df };
                self.state[index] = self.state[(index + MIDDLE) % WORDS] ^ joined >> 1 ^ odd;
            }
            self.next = 0;
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= word << 7 & 0x9d2c_5680;
        word ^= word << 15 & 0xefc6_0000;
        word ^ word >> 18
    }

    /// Returns the next number from 0 up to 1, like `numpy.random.uniform()`.
    pub(crate) fn uniform(&mut self) -> f64 {
        let (high, low) = (f64::from(self.word() >> 5), f64::from(self.word() >> 6));
        (high * 67_108_864.0 + low) / 9_007_199_254_740_992.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the output of NumPy 2.2.
    #[test]
    fn numbers_of_numpy() {
        let first = |seed| {
            let mut random = NumpyRandom::new(seed);
            [random.uniform(), random.uniform(), random.uniform()]
        };
        assert_eq!(first(0), [0.548_813_503_927_324_8, 0.715_189_366_372_419_5, 0.602_763_376_071_643_9]);
        assert_eq!(first(42), [0.374_540_118_847_362_5, 0.950_714_306_409_916_2, 0.731_993_941_811_405_1]);
        let mut random = NumpyRandom::new(7);
        let sum: f64 = (0..10_000).map(|_| random.uniform()).sum();
        assert_eq!(sum, 4_975.797_747_817_584);
    }
}
