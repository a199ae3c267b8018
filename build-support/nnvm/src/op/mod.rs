//! The operators of NNVM, by family.

mod boxes;
mod broadcast;
mod call;
mod conv;
mod elementwise;
mod infer;
mod init;
mod nn;
mod pool;
mod reduce;
mod slopes;
mod state;
mod transform;
mod winograd;
mod yolo;

/// `TOpPattern`: the fusion patterns of operators.
pub mod pattern {
    /// Each element from the element at the same place.
    pub const ELEMENTWISE: i64 = 0;
    /// The same with inputs that are broadcast.
    pub const BROADCAST: i64 = 1;
    /// Each element from some element of the input.
    pub const INJECTIVE: i64 = 2;
    /// A reduction.
    pub const REDUCE: i64 = 3;
    /// A product or a convolution: elementwise operators can follow in the same kernel.
    pub const OUT_FUSABLE: i64 = 4;
    /// Not fused.
    pub const OPAQUE: i64 = 8;
}
