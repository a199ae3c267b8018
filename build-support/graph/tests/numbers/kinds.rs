//! The list of all operators, by how NaN passes through them.

use kernpack_graph::op;

use super::nan::{COMPARING, ELEMENTS, SEVERAL};

/// Operators that the tests of NaN name in addition to those in tables.
const NAMED: &[&str] = &[
    "ReduceMax",
    "ReduceMin",
    "ReduceLogSumExp",
    "ReduceSum",
    "MaxPool",
    "AveragePool",
    "GlobalMaxPool",
    "GlobalAveragePool",
    "RoiAlign",
    "ArgMax",
    "ArgMin",
    "Hardmax",
    "TopK",
    "PRelu",
];

/// Operators whose results are sums and products of their elements, without a comparison.
const SUMS: &[&str] = &[
    "Adagrad",
    "Adam",
    "Attention",
    "BatchNormalization",
    "CausalConvWithState",
    "Conv",
    "ConvTranspose",
    "CumProd",
    "CumSum",
    "DFT",
    "DeformConv",
    "DequantizeLinear",
    "Det",
    "Dropout",
    "Einsum",
    "Gemm",
    "GlobalLpPool",
    "GridSample",
    "GroupNormalization",
    "InstanceNormalization",
    "LRN",
    "LayerNormalization",
    "LinearAttention",
    "LpNormalization",
    "LpPool",
    "MatMul",
    "MeanVarianceNormalization",
    "Momentum",
    "NegativeLogLikelihoodLoss",
    "RMSNormalization",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceMean",
    "ReduceProd",
    "ReduceSumSquare",
    "Resize",
    "RotaryEmbedding",
    "STFT",
    "SwiGLU",
    "SoftmaxCrossEntropyLoss",
    "Upsample",
    "AffineGrid",
];

/// Operators that return elements unchanged at other places. `ScatterElements` and `ScatterND` with
/// a reduction are tested with it.
const MOVES: &[&str] = &[
    "ArrayFeatureExtractor",
    "BitCast",
    "Cast",
    "CastLike",
    "CenterCropPad",
    "Col2Im",
    "Compress",
    "Concat",
    "DepthToSpace",
    "Expand",
    "Flatten",
    "Gather",
    "GatherElements",
    "GatherND",
    "Identity",
    "MaxUnpool",
    "Pad",
    "Reshape",
    "ReverseSequence",
    "Scatter",
    "ScatterElements",
    "ScatterND",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "TensorScatter",
    "Tile",
    "Transpose",
    "Trilu",
    "Unique",
    "Unsqueeze",
    "Where",
];

/// Operators whose results are booleans, integers, counts or generated: none of them can be NaN. A
/// comparison with NaN gives the operator's regular result: a box without a score, a branch of a
/// tree.
const WITHOUT: &[&str] = &[
    "And",
    "Binarizer",
    "BitShift",
    "BitwiseAnd",
    "BitwiseNot",
    "BitwiseOr",
    "BitwiseXor",
    "BlackmanWindow",
    "ConstantOfShape",
    "ConvInteger",
    "DynamicQuantizeLinear",
    "Equal",
    "EyeLike",
    "Greater",
    "GreaterOrEqual",
    "HammingWindow",
    "HannWindow",
    "IsInf",
    "IsNaN",
    "Less",
    "LessOrEqual",
    "MatMulInteger",
    "MelWeightMatrix",
    "NonMaxSuppression",
    "NonZero",
    "Not",
    "OneHot",
    "Or",
    "QLinearConv",
    "QLinearMatMul",
    "QuantizeLinear",
    "Range",
    "Shape",
    "Size",
    "TfIdfVectorizer",
    "TreeEnsemble",
    "Xor",
];

/// A new operator must be in one of the lists.
#[test]
fn every_operator_is_in_a_list() {
    let elements = ELEMENTS.iter().chain(COMPARING).map(|(name, _)| *name);
    let listed: Vec<&str> =
        elements.chain([SEVERAL, NAMED, SUMS, MOVES, WITHOUT].into_iter().flatten().copied()).collect();
    let missing: Vec<_> = op::names().into_iter().filter(|name| !listed.contains(name)).collect();
    assert!(missing.is_empty(), "say in a list how NaN passes through {missing:?}, and test it there");
    let unknown: Vec<_> = listed.iter().filter(|name| op::find(name).is_none()).collect();
    assert!(unknown.is_empty(), "no operators: {unknown:?}");
}
