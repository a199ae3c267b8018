//! Random decisions as a list of numbers: a shorter or smaller list results in a simpler program,
//! so that shrinking needs no other knowledge.

use std::time::{Duration, Instant};

/// The time after which shrinking ends with its current result.
const LONGEST: Duration = Duration::from_secs(60);

/// The decision of `rarely(5)` for the rare case.
const THREADS: u32 = 4;

/// A list of decisions. After its end every decision is the first choice.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    numbers: Vec<u32>,
    next: usize,
}

impl Choices {
    /// Random decisions from a seed.
    pub(crate) fn of_seed(seed: u64) -> Self {
        let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
        let numbers = (0..400).map(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed >> 40) as u32
        });
        Self { numbers: numbers.collect(), next: 0 }
    }

    /// The given decisions.
    pub(crate) fn of(numbers: &[u32]) -> Self {
        Self { numbers: numbers.to_vec(), next: 0 }
    }

    /// The same decisions, of which the next one is that of a schedule for device threads.
    pub(crate) fn with_threads(mut self) -> Self {
        if let Some(number) = self.numbers.get_mut(self.next) {
            *number = THREADS;
        }
        self
    }

    /// A number below `count`.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        let number = self.numbers.get(self.next).copied().unwrap_or(0);
        self.next += 1;
        number as usize % count.max(1)
    }

    /// One of several values.
    pub(crate) fn one<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    /// True in one of `count` cases, not the first one.
    pub(crate) fn rarely(&mut self, count: usize) -> bool {
        self.below(count) == count - 1
    }
}

/// Returns a shorter and smaller list for which the test still fails, and its problem.
pub(crate) fn shrunk(
    choices: Choices,
    problem: String,
    fails: impl Fn(&[u32]) -> Option<String>,
) -> (Vec<u32>, String) {
    let mut best = (choices.numbers, problem);
    let started = Instant::now();
    let is_over = || started.elapsed() > LONGEST;
    let mut improved = true;
    while improved && !is_over() {
        improved = false;
        let mut candidates: Vec<Vec<u32>> = Vec::new();
        let numbers = &best.0;
        for length in [200, 100, 50, 20, 8, 4, 2, 1] {
            for start in (0..numbers.len()).step_by(length) {
                let mut shorter = numbers.clone();
                shorter.drain(start..(start + length).min(numbers.len()));
                candidates.push(shorter);
            }
        }
        for position in 0..numbers.len() {
            for smaller in [0, 1, 2, numbers[position] % 840] {
                if smaller < numbers[position] {
                    let mut changed = numbers.clone();
                    changed[position] = smaller;
                    candidates.push(changed);
                }
            }
        }
        for candidate in candidates {
            if is_over() {
                break;
            }
            if let Some(problem) = fails(&candidate) {
                best = (candidate, problem);
                improved = true;
                break;
            }
        }
    }
    while best.0.last() == Some(&0) {
        best.0.pop();
    }
    best
}
