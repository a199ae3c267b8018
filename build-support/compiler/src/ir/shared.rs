//! Parts that several expressions share: walks and rewrites look at each once, or they would take time exponential in the depth of `x = x + x`.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use super::expr::{Expr, ExprNode};

/// Hashes addresses.
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
        // Multiplied for the high bits, which tables take, and shifted for the low ones.
        let mixed = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// Values by address.
pub type ByAddress<T> = HashMap<usize, T, BuildHasherDefault<AddressHasher>>;

/// Whether an expression may be a part of several others, and has parts itself.
pub fn is_shared(expr: &Expr) -> bool {
    let leaf =
        matches!(**expr, ExprNode::Int { .. } | ExprNode::Float { .. } | ExprNode::Text { .. } | ExprNode::Var { .. });
    !leaf && expr.object().strong_count() > 1
}

/// The shared parts that a walk has seen. They have to stay alive during the walk, as addresses are kept.
#[derive(Default)]
pub struct Seen(HashSet<usize, BuildHasherDefault<AddressHasher>>);

impl Seen {
    /// Whether a part is met for the first time; always, if it is not [shared](is_shared).
    pub fn is_new(&mut self, expr: &Expr) -> bool {
        !is_shared(expr) || self.0.insert(expr.address())
    }
}

/// What shared parts were rewritten to.
#[derive(Default)]
pub struct Memo(ByAddress<(Expr, Expr)>);

impl Memo {
    /// What a part was rewritten to, if that is known.
    pub fn get(&self, expr: &Expr) -> Option<Expr> {
        self.0.get(&expr.address()).map(|(_, new)| new.clone())
    }

    /// Keeps what a part was rewritten to.
    pub fn put(&mut self, expr: &Expr, new: &Expr) {
        // The original is kept, too, so that its address stays taken.
        self.0.insert(expr.address(), (expr.clone(), new.clone()));
    }

    /// To be called when rewriting gives something else from now on.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
