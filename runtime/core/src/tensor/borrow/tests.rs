use core::ops::Range;
use std::sync::atomic::{AtomicI32, Ordering};

use super::record::WAYS;
use super::*;

fn record<const SETS: usize>() -> Record<SETS> {
    let number = || sync::AtomicUsize::new(0);
    let cell = || Cell::new(sync::AtomicU64::new(0), number(), number());
    Record::new(core::array::from_fn(|_| core::array::from_fn(|_| cell())), sync::Mutex::new(Crowd::new()))
}

/// Reproducible pseudorandom numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn range(&mut self) -> Range<usize> {
        // Few enough that the same ranges come back.
        let (start, len) = (16 + self.below(12) * 4, 1 + self.below(4) * 7);
        start..start + len
    }
}

#[test]
fn readers_share_and_writers_do_not() {
    // Addresses that no allocation of this test program has.
    let (low, high) = (16..32, 24..40);
    let first = Borrow::new(low.clone(), false).unwrap();
    let second = first.again();
    let across = Borrow::new(high.clone(), false).unwrap();
    assert!(Borrow::new(low.clone(), true).is_none());
    drop((first, across));
    assert!(Borrow::new(20..21, true).is_none(), "the second reader is still there");
    drop(second);
    let writer = Borrow::new(low.clone(), true).unwrap();
    assert!(Borrow::new(high.clone(), false).is_none());
    assert!(Borrow::new(32..40, false).is_some(), "beside it is free");
    assert!(Borrow::new(0..0, true).is_some(), "nothing is never in the way");
    drop(writer);
    assert!(Borrow::new(high, true).is_some());
}

/// Checks that the record gives the same answers as a list of all views, with any mixture of
/// ranges.
fn as_a_list<const SETS: usize>(seed: u64) {
    let (record, mut numbers) = (record::<SETS>(), Numbers(seed));
    let mut views: Vec<(Range<usize>, bool, usize)> = Vec::new();
    let mut refused = 0;
    for step in 0..20_000 {
        // Phases with many views and phases with few.
        let wanted = [1, 3, 12][step / 64 % 3];
        if views.len() < wanted {
            let (range, write) = (numbers.range(), numbers.below(3) == 0);
            let in_the_way = views
                .iter()
                .any(|(other, written, _)| other.start < range.end && range.start < other.end && (write || *written));
            let token = record.acquire(range.clone(), write);
            assert_eq!(token == 0, in_the_way, "{range:?}, {write}, {views:?}");
            refused += usize::from(in_the_way);
            if token != 0 {
                views.push((range, write, token));
            }
        }
        if views.len() >= wanted || numbers.below(3) == 0 {
            let which = numbers.below(views.len().max(1));
            if which < views.len() {
                let (range, write, token) = views.swap_remove(which);
                // SAFETY: acquired above, with these numbers.
                unsafe { record.release(range, write, token) };
            }
        }
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn answers_are_those_of_a_list() {
    for seed in 0..5 {
        as_a_list::<1>(seed);
        as_a_list::<4>(seed);
        as_a_list::<64>(seed);
    }
}

#[test]
fn views_of_other_ranges_do_not_touch_a_cell() {
    // The process's own record; no allocation is at these addresses.
    let record = &RECORD;
    let ranges = (0..64).map(|place| 4096 + place * 100..4096 + place * 100 + 90);
    let tokens: Vec<usize> = ranges.clone().map(|range| record.acquire(range, false)).collect();
    let mut cells = tokens.clone();
    cells.sort_unstable();
    cells.dedup();
    assert_eq!(cells.len(), 64, "each range has a cell");
    assert!(cells.windows(2).all(|pair| pair[1] - pair[0] >= 64), "in a cache line of its own");
    for (range, token) in ranges.clone().zip(&tokens) {
        assert_eq!(record.acquire(range.clone(), false), *token, "which is found again");
        for _ in 0..2 {
            // SAFETY: acquired twice.
            unsafe { record.release(range.clone(), false, *token) };
        }
    }
    for (range, token) in ranges.zip(tokens) {
        assert_eq!(record.acquire(range.clone(), true), token, "and stays when there is no view");
        // SAFETY: acquired in the line above.
        unsafe { record.release(range, true, token) };
    }
}

#[test]
fn more_ranges_than_cells() {
    let record = record::<1>();
    let ranges: Vec<Range<usize>> = (1..100).map(|place| place * 64..place * 64 + 8 + place % 50).collect();
    for range in ranges.iter().chain(&ranges) {
        let token = record.acquire(range.clone(), true);
        assert_ne!(token, 0);
        assert_eq!(record.acquire(range.clone(), false), 0);
        // SAFETY: acquired above.
        unsafe { record.release(range.clone(), true, token) };
    }
    let all: Vec<_> = ranges.iter().map(|range| record.acquire(range.clone(), true)).collect();
    assert!(all.iter().all(|token| *token != 0));
    assert_eq!(all.iter().filter(|token| **token > 1).count(), WAYS, "all cells are used");
    for (range, token) in ranges.iter().zip(all) {
        assert_eq!(record.acquire(range.clone(), false), 0);
        // SAFETY: acquired above.
        unsafe { record.release(range.clone(), true, token) };
    }
}

#[test]
fn threads_exclude_each_other() {
    const STEPS: usize = if cfg!(miri) { 200 } else { 50_000 };
    let record = record::<2>();
    // For each address, the number of its readers, or -1 for a writer.
    let state: Vec<AtomicI32> = (0..128).map(|_| AtomicI32::new(0)).collect();
    let work = |seed| {
        let mut numbers = Numbers(seed);
        let mut granted = 0;
        for _ in 0..STEPS {
            let (range, write) = (numbers.range(), numbers.below(3) == 0);
            let token = record.acquire(range.clone(), write);
            if token == 0 {
                continue;
            }
            granted += 1;
            for address in &state[range.clone()] {
                match write {
                    true => assert_eq!(address.swap(-1, Ordering::Relaxed), 0),
                    false => assert!(address.fetch_add(1, Ordering::Relaxed) >= 0),
                }
            }
            for address in &state[range.clone()] {
                match write {
                    true => address.store(0, Ordering::Relaxed),
                    false => _ = address.fetch_sub(1, Ordering::Relaxed),
                }
            }
            // SAFETY: acquired above.
            unsafe { record.release(range, write, token) };
        }
        granted
    };
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..4).map(|seed| scope.spawn(move || work(seed))).collect();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap() > STEPS / 10));
    });
    assert_ne!(record.acquire(0..128, true), 0, "all views are gone");
}
