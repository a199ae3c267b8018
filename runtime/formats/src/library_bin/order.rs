//! The order in which the modules of an import tree are written, which determines their numbers: 0,
//! 1, 2, ...
//!
//! All modules that become part of the library share one place, and every import must come later
//! than its importer.
//!
//! The order is that of Apache TVM whenever TVM's is valid: depth first, the imports of a module
//! from the last to the first; first the modules that are reached without passing the library, then
//! the library, then the rest. TVM rejects trees in which a module has an importer that this
//! traversal visits after it; for these, the order is a topological one.

/// Returns the order in which the modules of an acyclic tree are written. Module 0 is the root and
/// reaches all others.
#[inline]
pub fn import_order(imports: &[Vec<usize>]) -> Vec<usize> {
    match order(imports, &vec![false; imports.len()]) {
        Ok(order) => order.places.into_iter().flatten().collect(),
        // A cycle, which the caller rules out.
        Err(_) => (0..imports.len()).collect(),
    }
}

/// An order of the modules of a tree.
#[derive(Debug, PartialEq, Eq)]
pub struct Order {
    /// The modules at each place: one, or at the library's place all modules that become part of
    /// it. The root is at place 0.
    pub places: Vec<Vec<usize>>,
    /// The imports of each place: places in ascending order, all greater than the place.
    pub imports: Vec<Vec<usize>>,
    /// The place of the library, if there is one.
    pub library: Option<usize>,
}

/// The reason that no order exists: two modules of the library, and the modules through which the
/// first imports the second.
#[derive(Debug, PartialEq, Eq)]
pub struct Cycle {
    /// The importing module.
    pub from: usize,
    /// At least one module outside the library, then one in it. Each imports the next.
    pub via: Vec<usize>,
}

/// Orders an acyclic tree. Module 0 is the root and reaches all others; `in_library` is true for
/// the modules that become part of the library.
#[inline]
pub fn order(imports: &[Vec<usize>], in_library: &[bool]) -> Result<Order, Cycle> {
    let walked = Order::new(imports, walk(imports, in_library), in_library);
    if walked.is_forward() {
        return Ok(walked);
    }
    match topological(&walked) {
        Ok(places) => {
            let places = places.into_iter().map(|place| walked.places[place].clone()).collect();
            Ok(Order::new(imports, places, in_library))
        }
        Err(places) => Err(Cycle::new(imports, in_library, &walked, &places)),
    }
}

/// Returns the places in the order of TVM's traversal.
#[inline]
fn walk(imports: &[Vec<usize>], in_library: &[bool]) -> Vec<Vec<usize>> {
    let mut places = Vec::new();
    let mut is_seen = vec![false; imports.len()];
    let mut pending = vec![0];
    is_seen[0] = true;
    let mut push_imports = |module: usize, pending: &mut Vec<usize>| {
        for &import in &imports[module] {
            if !std::mem::replace(&mut is_seen[import], true) {
                pending.push(import);
            }
        }
    };
    // Modules that are reached without passing the library come first: they include all importers
    // of a library part that are not themselves reached through the library.
    let mut border = Vec::new();
    while let Some(module) = pending.pop() {
        if in_library[module] {
            border.push(module);
        } else {
            places.push(vec![module]);
            push_imports(module, &mut pending);
        }
    }
    if border.is_empty() {
        return places;
    }
    let library = places.len();
    places.push(Vec::new());
    pending = border;
    while let Some(module) = pending.pop() {
        if in_library[module] {
            places[library].push(module);
        } else {
            places.push(vec![module]);
        }
        push_imports(module, &mut pending);
    }
    places
}

/// Returns the places in an order from importers to imports, starting with the root. The error is a
/// cycle: a list of places in which each imports the next, and the last imports the first.
#[inline]
fn topological(order: &Order) -> Result<Vec<usize>, Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        OnPath,
        Done,
    }
    let mut state = vec![State::New; order.places.len()];
    let mut done = Vec::with_capacity(order.places.len());
    let mut path: Vec<(usize, usize)> = vec![(0, 0)];
    state[0] = State::OnPath;
    while let Some((place, next)) = path.last_mut() {
        let place = *place;
        // From the last to the first, so that the imports are in their original order in the
        // result, which is reversed.
        let imports = &order.imports[place];
        let Some(&import) = imports.len().checked_sub(*next + 1).and_then(|index| imports.get(index)) else {
            state[place] = State::Done;
            done.push(place);
            path.pop();
            continue;
        };
        *next += 1;
        match state[import] {
            State::Done => {}
            State::New => {
                state[import] = State::OnPath;
                path.push((import, 0));
            }
            State::OnPath => {
                let start = path.iter().position(|(place, _)| *place == import).unwrap_or_default();
                return Err(path[start..].iter().map(|(place, _)| *place).collect());
            }
        }
    }
    done.reverse();
    Ok(done)
}

impl Order {
    #[inline]
    fn new(imports: &[Vec<usize>], places: Vec<Vec<usize>>, in_library: &[bool]) -> Self {
        let mut place_of = vec![0; imports.len()];
        for (place, modules) in places.iter().enumerate() {
            for &module in modules {
                place_of[module] = place;
            }
        }
        let imports_of = |(place, modules): (usize, &Vec<usize>)| {
            let all = modules.iter().flat_map(|module| &imports[*module]).map(|import| place_of[*import]);
            let mut found: Vec<usize> = all.filter(|import| *import != place).collect();
            found.sort_unstable();
            found.dedup();
            found
        };
        let imports = places.iter().enumerate().map(imports_of).collect();
        let library = in_library.iter().position(|is_in| *is_in).map(|module| place_of[module]);
        Self { places, imports, library }
    }

    /// Returns whether the imports of each module come after it.
    #[inline]
    fn is_forward(&self) -> bool {
        self.imports.iter().enumerate().all(|(place, imports)| imports.first().is_none_or(|first| *first > place))
    }
}

impl Cycle {
    /// Converts a cycle of places to modules. The tree itself is acyclic, so the library is on the
    /// cycle.
    #[inline]
    fn new(imports: &[Vec<usize>], in_library: &[bool], order: &Order, places: &[usize]) -> Self {
        let start = places.iter().position(|place| Some(*place) == order.library).unwrap_or_default();
        let outside = (1..places.len()).map(|step| places[(start + step) % places.len()]);
        let mut via: Vec<usize> = outside.filter_map(|place| order.places[place].first().copied()).collect();
        let library = &order.places[places[start]];
        let imports_first = |module: &&usize| via.first().is_some_and(|first| imports[**module].contains(first));
        let from = library.iter().find(imports_first).copied().unwrap_or_default();
        let back = via.last().and_then(|last| imports[*last].iter().find(|import| in_library[**import]).copied());
        via.extend(back);
        Self { from, via }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks places, imports and the library's place as text; places are shown as module numbers,
    /// `+` joins the parts of the library.
    #[track_caller]
    fn check(imports: &[&[usize]], library: &[usize], expected: &str) {
        let imports: Vec<Vec<usize>> = imports.iter().map(|row| row.to_vec()).collect();
        let in_library: Vec<bool> = (0..imports.len()).map(|module| library.contains(&module)).collect();
        let text = match order(&imports, &in_library) {
            Ok(order) => format!("{:?} {:?} {:?}", order.places, order.imports, order.library),
            Err(cycle) => format!("{} {:?}", cycle.from, cycle.via),
        };
        assert_eq!(text, expected);
    }

    #[test]
    fn orders() {
        // One module that is not the library; one that is.
        check(&[&[]], &[], "[[0]] [[]] None");
        check(&[&[]], &[0], "[[0]] [[]] Some(0)");
        // The library imports two modules; the traversal goes from the last to the first.
        check(&[&[1, 2], &[], &[]], &[0], "[[0], [2], [1]] [[1, 2], [], []] Some(0)");
        // The root is not the library.
        check(&[&[1], &[]], &[1], "[[0], [1]] [[1], []] Some(1)");
        // All importers of the library come before it, and its imports after it.
        check(&[&[1, 2], &[3], &[3], &[4], &[]], &[3], "[[0], [2], [1], [3], [4]] [[1, 2], [3], [3], [4], []] Some(3)");
        // Two parts of the library, one imported by the other: one place, which does not import
        // itself.
        check(&[&[1, 2], &[2], &[3], &[]], &[1, 2], "[[0], [1, 2], [3]] [[1], [2], []] Some(1)");
        // Importing a module twice has the same effect as importing it once.
        check(&[&[1, 1], &[]], &[0], "[[0], [1]] [[1], []] Some(0)");
        // A shared child whose importer comes later in the traversal: TVM rejects this tree.
        check(&[&[1, 2], &[2], &[]], &[], "[[0], [1], [2]] [[1, 2], [2], []] None");
        check(&[&[1, 2, 3], &[2], &[3], &[]], &[0], "[[0], [1], [2], [3]] [[1, 2, 3], [2], [3], []] Some(0)");
    }

    #[test]
    fn merging_makes_a_cycle() {
        // Library 0 imports 1, which imports library 2.
        check(&[&[1], &[2], &[]], &[0, 2], "0 [1, 2]");
        check(&[&[1, 3], &[2], &[4], &[], &[3]], &[1, 4], "1 [2, 4]");
    }
}
