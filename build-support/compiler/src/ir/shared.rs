//! Parts that several expressions share: traversals and rewrites visit each one once; otherwise
//! they would take time exponential in the depth of `x = x + x`.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use super::expr::{Expr, ExprNode};

/// A hasher of addresses.
#[derive(Default)]
pub struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn write_usize(&mut self, address: usize) {
        // Multiplied for the high bits, which hash tables use, and shifted for the low ones.
        let mixed = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// A map from addresses to values.
pub type ByAddress<T> = HashMap<usize, T, BuildHasherDefault<AddressHasher>>;

/// Returns true if an expression may be a part of several others, and has parts itself.
pub fn is_shared(expr: &Expr) -> bool {
    let leaf =
        matches!(**expr, ExprNode::Int { .. } | ExprNode::Float { .. } | ExprNode::Text { .. } | ExprNode::Var { .. });
    !leaf && expr.object().strong_count() > 1
}

/// The shared parts that a traversal has visited. They have to stay alive during the traversal,
/// because their addresses are kept.
#[derive(Default)]
pub struct Seen(HashSet<usize, BuildHasherDefault<AddressHasher>>);

impl Seen {
    /// Returns true on the first visit of a part; always true for a part that is not
    /// [shared](is_shared).
    pub fn is_new(&mut self, expr: &Expr) -> bool {
        !is_shared(expr) || self.0.insert(expr.address())
    }
}

/// The results of rewriting shared parts.
#[derive(Default)]
pub struct Memo(ByAddress<(Expr, Expr)>);

impl Memo {
    /// The result of rewriting a part, if it is known.
    pub fn get(&self, expr: &Expr) -> Option<Expr> {
        self.0.get(&expr.address()).map(|(_, new)| new.clone())
    }

    /// Records the result of rewriting a part.
    pub fn put(&mut self, expr: &Expr, new: &Expr) {
        // The original is also kept alive, so that its address is not reused.
        self.0.insert(expr.address(), (expr.clone(), new.clone()));
    }

    /// Clears the memo. Must be called when the results of the rewrite change.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
