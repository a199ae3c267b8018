//! Facts about integer expressions: intervals, divisibility, canonical forms, proofs, sets for
//! bound inference.

mod analyzer;
mod compare;
mod connective;
mod consequence;
mod deduce;
mod division;
mod divisor;
mod evaluate;
mod extreme;
mod facts;
mod fold;
pub(crate) mod guard;
mod int_set;
mod interval;
mod lanes;
mod linear;
mod logic;
mod modular;
mod normalize;
mod packed;
mod product;
mod prove;
mod render;
mod same;
mod sum;
mod wrapping;

pub use analyzer::{Analyzer, Mark};
pub use deduce::deduce_bound;
pub use int_set::{IntSet, SetMap};
pub use interval::ConstInterval;
pub use linear::{LinearForm, detect_linear};
pub use modular::ModularSet;
pub use same::same;
pub(crate) use wrapping::may_be_data;
