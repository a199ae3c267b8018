//! A module's import tree as data: every module once, and the imports of each.

use core::fmt::Write as _;
use rustc_hash::FxHashMap;

use crate::Result;
use crate::module::Module;

/// Number of modules that are shown at the start and at the end of a path.
const SHOWN: usize = 8;

/// Every module that a root reaches, the root first. There are no cycles.
pub(in crate::module) struct ImportTree {
    modules: Vec<Module>,
    /// For each module the indices of its imports, in its own order, including duplicates.
    imports: Vec<Vec<usize>>,
    /// For each module except the root: the module that was first found to import it, and the
    /// position among that module's imports.
    importer: Vec<Option<(usize, usize)>>,
}

impl ImportTree {
    /// Walks the tree. Time and memory are proportional to the number of modules and imports, and
    /// the stack does not grow with the depth of the tree.
    ///
    /// # Errors
    /// Returns a RuntimeError that contains the path of a cycle.
    #[inline]
    pub(in crate::module) fn of(root: &Module) -> Result<Self> {
        let mut tree = Self { modules: vec![root.clone()], imports: Vec::new(), importer: vec![None] };
        let mut index_of = FxHashMap::from_iter([(root.address(), 0)]);
        tree.imports.push(Vec::new());
        // The path to the current position: each module, its imports, and the number of imports
        // that have been visited.
        let mut path = vec![(0, root.imports(), 0)];
        let mut is_on_path = vec![true];
        while let Some((importer, imports, next)) = path.last_mut() {
            let importer = *importer;
            let Some(module) = imports.get(*next).cloned() else {
                is_on_path[importer] = false;
                path.pop();
                continue;
            };
            let place = *next;
            *next += 1;
            if let Some(&known) = index_of.get(&module.address()) {
                tree.imports[importer].push(known);
                if is_on_path[known] {
                    let steps: Vec<(usize, usize)> = path.iter().map(|(module, _, next)| (*module, next - 1)).collect();
                    return Err(tree.cycle(&steps, &module));
                }
                continue;
            }
            let index = tree.modules.len();
            index_of.insert(module.address(), index);
            tree.imports[importer].push(index);
            tree.imports.push(Vec::new());
            tree.importer.push(Some((importer, place)));
            is_on_path.push(true);
            let imports = module.imports();
            tree.modules.push(module);
            path.push((index, imports, 0));
        }
        Ok(tree)
    }

    /// The modules; the first is the root.
    #[inline]
    pub(in crate::module) fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// For each module the indices of its imports.
    #[inline]
    pub(in crate::module) fn imports(&self) -> &[Vec<usize>] {
        &self.imports
    }

    /// The name of a module in messages: the kinds on the path from the root to it, each with its
    /// index among the imports of the previous one, such as `llvm -> [0] opencl`.
    #[inline]
    pub(in crate::module) fn path(&self, module: usize) -> String {
        let mut steps = vec![(None, module)];
        let mut at = module;
        while let Some((importer, place)) = self.importer[at] {
            if let Some(last) = steps.last_mut() {
                last.0 = Some(place);
            }
            steps.push((None, importer));
            at = importer;
        }
        steps.reverse();
        self.shown(&steps)
    }

    /// The path to `from`, and further through `via`, in which each module imports the next.
    #[inline]
    pub(in crate::module) fn path_through(&self, from: usize, via: &[usize]) -> String {
        let mut text = self.path(from);
        let mut at = from;
        for &module in via {
            let place = self.imports[at].iter().position(|import| *import == module).unwrap_or_default();
            let _ = write!(text, " -> [{place}] {}", self.modules[module].kind());
            at = module;
        }
        text
    }

    /// Creates the error of a cycle: `steps` contains the modules of the path and the position of
    /// the next one in each.
    #[inline]
    fn cycle(&self, steps: &[(usize, usize)], again: &Module) -> crate::Error {
        let mut shown = vec![(None, steps[0].0)];
        shown.extend(steps.windows(2).map(|pair| (Some(pair[0].1), pair[1].0)));
        let place = steps.last().map_or(0, |step| step.1);
        crate::error!(
            RuntimeError,
            "the import tree has a cycle, which no file can hold: {} -> [{place}] {}",
            self.shown(&shown),
            again.kind()
        )
    }

    #[inline]
    fn shown(&self, steps: &[(Option<usize>, usize)]) -> String {
        let mut text = String::new();
        for (number, (place, module)) in steps.iter().enumerate() {
            if steps.len() > 2 * SHOWN && number == SHOWN {
                let _ = write!(text, " -> ... {} more ...", steps.len() - 2 * SHOWN);
            }
            if steps.len() > 2 * SHOWN && (SHOWN..steps.len() - SHOWN).contains(&number) {
                continue;
            }
            if let Some(place) = place {
                let _ = write!(text, " -> [{place}] ");
            }
            text.push_str(&self.modules[*module].kind());
        }
        text
    }
}
