//! Extents of 0 together with numbers that are larger than any extent, and other ranks.

use kernpack_graph::{Attr, Constant};

use super::extents::{graph, message, quietly};
use super::table::{Given, Row, rows};

/// Numbers without a pattern, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn one(&mut self, of: &[i64]) -> i64 {
        of[self.below(of.len())]
    }
}

/// Returns the row with other extents, in which equal ones stay equal, other ranks, and other
/// integers.
fn at_random(row: &Row, random: &mut Random) -> Row {
    const EXTENTS: [i64; 8] = [0, 0, 0, 1, 1 << 19, 1 << 20, 1 << 30, 1 << 40];
    const NUMBERS: [i64; 16] =
        [-2, -1, 0, 1, 2, 3, 4, 5, 1 << 19, (1 << 20) - 1, 1 << 30, 1 << 39, 1 << 40, 1 << 62, i64::MIN, i64::MAX];
    let mut own = row.clone();
    let mut extents = std::collections::BTreeMap::new();
    let odds = 1 + random.below(4);
    for input in own.inputs.iter_mut().flatten() {
        match input {
            Given::Argument(_, shape) => {
                for extent in shape.iter_mut() {
                    let changed = extents
                        .entry(*extent)
                        .or_insert_with(|| if random.below(4) < odds { random.one(&EXTENTS) } else { *extent });
                    *extent = *changed;
                }
                match random.below(12) {
                    0 => drop(shape.pop()),
                    1 => shape.push(random.one(&[0, 1, 2])),
                    2 => shape.extend([random.one(&[0, 1, 2]), random.one(&[0, 1])]),
                    _ => {}
                }
            }
            Given::Known(known) => {
                let Ok(mut values) = known.to_ints() else { continue };
                for value in &mut values {
                    if random.below(3) == 0 {
                        *value = random.one(&NUMBERS);
                    }
                }
                *known = Constant::of_ints(&values).reshaped(known.shape()).unwrap();
            }
        }
    }
    for (_, attr) in &mut own.attrs {
        match attr {
            Attr::Int(value) if random.below(2) == 0 => *value = random.one(&NUMBERS),
            Attr::Ints(values) => {
                for value in values {
                    if random.below(4) == 0 {
                        *value = random.one(&NUMBERS);
                    }
                }
            }
            _ => {}
        }
    }
    own
}

/// Returns the row with one kind of extents 0, up to two others large, and one integer of an
/// attribute large: each of them is accepted alone.
fn large_beside_0(row: &Row) -> Vec<Row> {
    let mut kinds: Vec<i64> = Vec::new();
    for input in row.inputs.iter().flatten() {
        if let Given::Argument(_, shape) = input {
            kinds.extend(shape);
        }
    }
    kinds.sort_unstable();
    kinds.dedup();
    let mut all = Vec::new();
    for zero in &kinds {
        for (one, other) in kinds.iter().flat_map(|one| kinds.iter().map(move |other| (one, other))) {
            if one > other || one == zero || other == zero {
                continue;
            }
            let large = if one == other { 1 << 30 } else { 1 << 19 };
            let mut extended = row.clone();
            for input in extended.inputs.iter_mut().flatten() {
                let Given::Argument(_, shape) = input else { continue };
                for extent in shape {
                    if extent == zero {
                        *extent = 0;
                    } else if extent == one || extent == other {
                        *extent = large;
                    }
                }
            }
            for index in 0..row.attrs.len() {
                for number in [(1 << 20) - 1, 1 << 19, 1 << 40] {
                    let mut own = extended.clone();
                    match &mut own.attrs[index].1 {
                        Attr::Int(value) => *value = number,
                        Attr::Ints(values) => values.fill(number),
                        _ => continue,
                    }
                    all.push(own);
                }
            }
        }
    }
    all
}

/// Extents of 0 do not bound products of the others, and ranks may be unexpected.
#[test]
fn numbers_beside_extents_of_0() {
    let mut random = Random(28);
    let (mut wrong, mut accepted, mut refused) = (Vec::new(), 0, 0);
    // No other extent of the table is 7.
    for row in rows(7) {
        let numbers = if row.attrs.is_empty() { 40 } else { 150 };
        let some = (0..numbers).map(|_| at_random(&row, &mut random)).collect::<Vec<_>>();
        for changed in large_beside_0(&row).into_iter().chain(some) {
            let shown = || format!("{}: {:?} {:?}", row.text, changed.attrs, changed.inputs);
            match quietly(|| graph(&changed, false)) {
                Err(panic) => {
                    let text = message(panic);
                    wrong.push(format!("{} panics: {text}", shown()));
                    break;
                }
                Ok(Err(error)) => {
                    refused += 1;
                    if !error.contains("node 'tested'") {
                        wrong.push(format!("{}: {error}", shown()));
                    }
                }
                Ok(Ok(graph)) => {
                    accepted += 1;
                    for (_, id) in &graph.outputs {
                        let shape = &graph.values[*id].shape;
                        if shape.iter().any(|extent| !(0..=1 << 40).contains(extent)) {
                            wrong.push(format!("{}: gives {shape:?}", shown()));
                        }
                    }
                }
            }
        }
    }
    wrong.truncate(40);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(accepted > 1000 && refused > 1000, "{accepted} accepted, {refused} refused");
    println!("{accepted} accepted, {refused} refused");
}
