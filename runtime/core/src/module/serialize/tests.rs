use proptest::prelude::*;

use crate::module::{ModuleImpl, ModuleProperties};
use crate::value::Bytes;
use crate::{Function, Module, Result};
use kernpack_formats::library_bin::order::order;

/// A module with any kind, properties and payload.
struct Plain {
    kind: &'static str,
    properties: ModuleProperties,
    payload: Result<Bytes>,
}

impl ModuleImpl for Plain {
    fn kind(&self) -> &str {
        self.kind
    }

    fn properties(&self) -> ModuleProperties {
        self.properties
    }

    fn find_function(&self, _name: &str) -> Result<Option<Function>> {
        Ok(None)
    }

    fn save_to_bytes(&self) -> Result<Bytes> {
        self.payload.clone()
    }
}

fn plain(kind: &'static str) -> Module {
    let properties = ModuleProperties::BINARY_SERIALIZABLE;
    Module::new(Plain { kind, properties, payload: Ok(Bytes::new(kind.as_bytes())) })
}

fn message(module: &Module) -> String {
    module.serialize().unwrap_err().to_string()
}

#[test]
fn cycles_are_named() {
    let [root, a, b] = ["root", "a", "b"].map(plain);
    root.append_imports(&[plain("leaf"), a.clone()]);
    a.append_imports(std::slice::from_ref(&b));
    // Without a check, as a faulty module of another language may do.
    b.append_imports(&[plain("other"), a.clone()]);
    let expected = "RuntimeError: the import tree has a cycle, which no file can hold: root -> [1] a -> [0] b -> [1] a";
    assert_eq!(message(&root), expected);
    root.append_imports(std::slice::from_ref(&root));
    b.clear_imports_locally();
    assert_eq!(message(&root), "RuntimeError: the import tree has a cycle, which no file can hold: root -> [2] root");
    root.clear_imports_locally();
}

#[test]
fn long_paths_are_shortened() {
    let modules: Vec<Module> = (0..40).map(|_| plain("m")).collect();
    for pair in modules.windows(2) {
        pair[0].append_imports(&[pair[1].clone()]);
    }
    modules[39].append_imports(&[modules[0].clone()]);
    let step = " -> [0] m";
    let expected = format!(
        "the import tree has a cycle, which no file can hold: m{0} -> ... 24 more ...{1}",
        step.repeat(7),
        step.repeat(9)
    );
    assert_eq!(message(&modules[0]), format!("RuntimeError: {expected}"));
    modules[39].clear_imports_locally();
}

#[test]
fn what_cannot_be_written_is_named_with_its_path() {
    let serializable = ModuleProperties::BINARY_SERIALIZABLE;
    let broken = || Err(crate::error!(ValueError, "no memory left"));
    let rows = [
        (
            "odd",
            ModuleProperties::RUNNABLE,
            Ok(Bytes::new(b"x")),
            "RuntimeError: the module top -> [1] odd can be neither serialized nor made a part of a library: its kind offers neither",
        ),
        (
            "odd",
            serializable,
            Ok(Bytes::new(b"")),
            "RuntimeError: the module top -> [1] odd has an empty payload, which the stock library cannot load; its kind must save at least one byte",
        ),
        ("odd", serializable, broken(), "ValueError: the module top -> [1] odd: no memory left"),
        (
            "library",
            serializable,
            Ok(Bytes::new(b"x")),
            "RuntimeError: the module top -> [1] library was loaded from a library file, and its code cannot be written out again; export the modules that the file was made of, or import the loaded library again where this tree is loaded",
        ),
        (
            "_lib",
            serializable,
            Ok(Bytes::new(b"x")),
            "RuntimeError: the module top -> [1] _lib has no name of a kind, so nothing could restore it",
        ),
        (
            "",
            serializable,
            Ok(Bytes::new(b"x")),
            "RuntimeError: the module top -> [1]  has no name of a kind, so nothing could restore it",
        ),
    ];
    for (kind, properties, payload, expected) in rows {
        let root = plain("top");
        root.append_imports(&[plain("fine"), Module::new(Plain { kind, properties, payload })]);
        assert_eq!(message(&root), expected);
    }
}

#[test]
fn a_library_that_would_import_itself_is_named() {
    let code = |name| Module::c_source("", "c", &[name]);
    let (root, between) = (plain("top"), plain("between"));
    let (first, last) = (code("first"), code("last"));
    root.append_imports(std::slice::from_ref(&first));
    first.append_imports(&[plain("other"), between.clone()]);
    between.append_imports(&[last]);
    assert_eq!(
        message(&root),
        "RuntimeError: the modules that become a part of the library cannot be merged into one, it would import itself: \
         top -> [0] c -> [1] between -> [0] c; export the last of them as a library of its own"
    );
    assert!(root.serialize_without_library().is_ok());
}

/// Imports of each module, later ones only; module 0 reaches all.
fn trees() -> impl Strategy<Value = (Vec<Vec<usize>>, Vec<bool>)> {
    let one = |max: usize| {
        (0..max, proptest::collection::vec((0..max, 0..max), 0..2 * max), proptest::collection::vec(any::<bool>(), max))
    };
    (1_usize..12).prop_flat_map(one).prop_map(|(seed, edges, in_library)| {
        let count = in_library.len();
        let mut imports = vec![Vec::new(); count];
        for module in 1..count {
            imports[(module * (seed + 1) + seed) % module].push(module);
        }
        for (a, b) in edges {
            if a < b {
                let place = b % (imports[a].len() + 1);
                imports[a].insert(place, b);
            }
        }
        (imports, in_library)
    })
}

proptest! {
    /// Checks the properties of a valid order in the simplest way.
    #[test]
    fn orders_are_sound((imports, in_library) in trees()) {
        let count = imports.len();
        // Reachability between modules if the library is one module.
        let same = |a: usize, b: usize| a == b || (in_library[a] && in_library[b]);
        let mut reaches = vec![vec![false; count]; count];
        for (a, row) in imports.iter().enumerate() {
            for &b in row {
                for x in (0..count).filter(|x| same(*x, a)) {
                    for y in (0..count).filter(|y| same(*y, b) && !same(x, *y)) {
                        reaches[x][y] = true;
                    }
                }
            }
        }
        for via in 0..count {
            for a in 0..count {
                for b in 0..count {
                    reaches[a][b] |= reaches[a][via] && reaches[via][b];
                }
            }
        }
        let is_cyclic = (0..count).any(|a| (0..count).any(|b| !same(a, b) && reaches[a][b] && reaches[b][a]));
        match order(&imports, &in_library) {
            Err(cycle) => {
                prop_assert!(is_cyclic);
                prop_assert!(in_library[cycle.from] && cycle.via.len() >= 2);
                let mut at = cycle.from;
                for (step, &next) in cycle.via.iter().enumerate() {
                    prop_assert!(imports[at].contains(&next));
                    prop_assert_eq!(in_library[next], step + 1 == cycle.via.len());
                    at = next;
                }
            }
            Ok(order) => {
                prop_assert!(!is_cyclic);
                prop_assert!(order.places[0].contains(&0));
                let mut place_of = vec![usize::MAX; count];
                for (place, modules) in order.places.iter().enumerate() {
                    for &module in modules {
                        prop_assert_eq!(place_of[module], usize::MAX);
                        place_of[module] = place;
                        prop_assert_eq!(in_library[module], order.library == Some(place));
                    }
                    prop_assert!(order.library == Some(place) || modules.len() == 1);
                }
                for (place, modules) in order.places.iter().enumerate() {
                    let of = |module: &usize| imports[*module].iter().map(|import| place_of[*import]).collect::<Vec<_>>();
                    let expected: std::collections::BTreeSet<usize> =
                        modules.iter().flat_map(of).filter(|import| *import != place).collect();
                    prop_assert!(order.imports[place].iter().all(|import| *import > place));
                    prop_assert_eq!(&order.imports[place], &expected.into_iter().collect::<Vec<_>>());
                }
            }
        }
    }
}
