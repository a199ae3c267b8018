//! Names of the attributes of ONNX's own operators.
//!
//! Operators of other domains are not listed and their attributes are not checked.

use super::proto::{Model, Node};
use super::twice::label;
use super::versions::all_nodes;
use crate::error::{GraphError, Result};

/// The operators of the domain "", sorted, and the attributes that a version of each has had.
///
/// Source: all versions of the schemas of ONNX 1.23.2.
const NAMES: &[(&str, &str)] = &[
    ("Abs", "consumed_inputs"),
    ("Acos", ""),
    ("Acosh", ""),
    ("Add", "axis broadcast consumed_inputs"),
    ("AffineGrid", "align_corners"),
    ("And", "axis broadcast"),
    ("ArgMax", "axis keepdims select_last_index"),
    ("ArgMin", "axis keepdims select_last_index"),
    ("Asin", ""),
    ("Asinh", ""),
    ("Atan", ""),
    ("Atanh", ""),
    (
        "Attention",
        "is_causal kv_num_heads left_window_size q_num_heads qk_matmul_output_mode right_window_size \
         scale softcap softmax_precision",
    ),
    ("AveragePool", "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides"),
    ("BatchNormalization", "consumed_inputs epsilon is_test momentum spatial training_mode"),
    ("Bernoulli", "dtype seed"),
    ("BitCast", "to"),
    ("BitShift", "direction"),
    ("BitwiseAnd", ""),
    ("BitwiseNot", ""),
    ("BitwiseOr", ""),
    ("BitwiseXor", ""),
    ("BlackmanWindow", "output_datatype periodic"),
    ("Cast", "round_mode saturate to"),
    ("CastLike", "round_mode saturate"),
    ("CausalConvWithState", "activation"),
    ("Ceil", "consumed_inputs"),
    ("Celu", "alpha"),
    ("CenterCropPad", "axes"),
    ("Clip", "consumed_inputs max min"),
    ("Col2Im", "dilations pads strides"),
    ("Compress", "axis"),
    ("Concat", "axis"),
    ("ConcatFromSequence", "axis new_axis"),
    ("Constant", "sparse_value value value_float value_floats value_int value_ints value_string value_strings"),
    ("ConstantOfShape", "value"),
    ("Conv", "auto_pad dilations group kernel_shape pads strides"),
    ("ConvInteger", "auto_pad dilations group kernel_shape pads strides"),
    ("ConvTranspose", "auto_pad dilations group kernel_shape output_padding output_shape pads strides"),
    ("Cos", ""),
    ("Cosh", ""),
    ("CumProd", "exclusive reverse"),
    ("CumSum", "exclusive reverse"),
    ("DFT", "axis inverse onesided"),
    ("DeformConv", "dilations group kernel_shape offset_group pads strides"),
    ("DepthToSpace", "blocksize mode"),
    ("DequantizeLinear", "axis block_size output_dtype"),
    ("Det", ""),
    ("Div", "axis broadcast consumed_inputs"),
    ("Dropout", "consumed_inputs is_test ratio seed"),
    ("DynamicQuantizeLinear", ""),
    ("Einsum", "equation"),
    ("Elu", "alpha consumed_inputs"),
    ("Equal", "axis broadcast"),
    ("Erf", ""),
    ("Exp", "consumed_inputs"),
    ("Expand", ""),
    ("EyeLike", "dtype k"),
    ("Flatten", "axis"),
    ("Floor", "consumed_inputs"),
    (
        "GRU",
        "activation_alpha activation_beta activations clip direction hidden_size layout \
         linear_before_reset output_sequence",
    ),
    ("Gather", "axis"),
    ("GatherElements", "axis"),
    ("GatherND", "batch_dims"),
    ("Gelu", "approximate"),
    ("Gemm", "alpha beta broadcast transA transB"),
    ("GlobalAveragePool", ""),
    ("GlobalLpPool", "p"),
    ("GlobalMaxPool", ""),
    ("Greater", "axis broadcast"),
    ("GreaterOrEqual", ""),
    ("GridSample", "align_corners mode padding_mode"),
    ("GroupNormalization", "epsilon num_groups stash_type"),
    ("HammingWindow", "output_datatype periodic"),
    ("HannWindow", "output_datatype periodic"),
    ("HardSigmoid", "alpha beta consumed_inputs"),
    ("HardSwish", ""),
    ("Hardmax", "axis"),
    ("Identity", ""),
    ("If", "else_branch then_branch"),
    ("ImageDecoder", "pixel_format"),
    ("InstanceNormalization", "consumed_inputs epsilon"),
    ("IsInf", "detect_negative detect_positive"),
    ("IsNaN", ""),
    ("LRN", "alpha beta bias size"),
    (
        "LSTM",
        "activation_alpha activation_beta activations clip direction hidden_size input_forget layout output_sequence",
    ),
    ("LayerNormalization", "axis epsilon stash_type"),
    ("LeakyRelu", "alpha consumed_inputs"),
    ("Less", "axis broadcast"),
    ("LessOrEqual", ""),
    ("LinearAttention", "chunk_size kv_num_heads q_num_heads scale update_rule"),
    ("Log", "consumed_inputs"),
    ("LogSoftmax", "axis"),
    ("Loop", "body"),
    ("LpNormalization", "axis p"),
    ("LpPool", "auto_pad ceil_mode dilations kernel_shape p pads strides"),
    ("MatMul", ""),
    ("MatMulInteger", ""),
    ("Max", "consumed_inputs"),
    ("MaxPool", "auto_pad ceil_mode dilations kernel_shape pads storage_order strides"),
    ("MaxRoiPool", "pooled_shape spatial_scale"),
    ("MaxUnpool", "kernel_shape pads strides"),
    ("Mean", "consumed_inputs"),
    ("MeanVarianceNormalization", "axes"),
    ("MelWeightMatrix", "output_datatype"),
    ("Min", "consumed_inputs"),
    ("Mish", ""),
    ("Mod", "fmod"),
    ("Mul", "axis broadcast consumed_inputs"),
    ("Multinomial", "dtype sample_size seed"),
    ("Neg", "consumed_inputs"),
    ("NegativeLogLikelihoodLoss", "ignore_index reduction"),
    ("NonMaxSuppression", "center_point_box"),
    ("NonZero", ""),
    ("Not", ""),
    ("OneHot", "axis"),
    ("Optional", "type"),
    ("OptionalGetElement", ""),
    ("OptionalHasElement", ""),
    ("Or", "axis broadcast"),
    ("PRelu", "consumed_inputs"),
    ("Pad", "mode paddings pads value"),
    ("Pow", "axis broadcast"),
    ("QLinearConv", "auto_pad dilations group kernel_shape pads strides"),
    ("QLinearMatMul", ""),
    ("QuantizeLinear", "axis block_size output_dtype precision saturate"),
    ("RMSNormalization", "axis epsilon stash_type"),
    ("RNN", "activation_alpha activation_beta activations clip direction hidden_size layout output_sequence"),
    ("RandomNormal", "dtype mean scale seed shape"),
    ("RandomNormalLike", "dtype mean scale seed"),
    ("RandomUniform", "dtype high low seed shape"),
    ("RandomUniformLike", "dtype high low seed"),
    ("Range", "stash_type"),
    ("Reciprocal", "consumed_inputs"),
    ("ReduceL1", "axes keepdims noop_with_empty_axes"),
    ("ReduceL2", "axes keepdims noop_with_empty_axes"),
    ("ReduceLogSum", "axes keepdims noop_with_empty_axes"),
    ("ReduceLogSumExp", "axes keepdims noop_with_empty_axes"),
    ("ReduceMax", "axes keepdims noop_with_empty_axes"),
    ("ReduceMean", "axes keepdims noop_with_empty_axes"),
    ("ReduceMin", "axes keepdims noop_with_empty_axes"),
    ("ReduceProd", "axes keepdims noop_with_empty_axes"),
    ("ReduceSum", "axes keepdims noop_with_empty_axes"),
    ("ReduceSumSquare", "axes keepdims noop_with_empty_axes"),
    ("RegexFullMatch", "pattern"),
    ("Relu", "consumed_inputs"),
    ("Reshape", "allowzero consumed_inputs shape"),
    (
        "Resize",
        "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside \
         extrapolation_value keep_aspect_ratio_policy mode nearest_mode",
    ),
    ("ReverseSequence", "batch_axis time_axis"),
    ("RoiAlign", "coordinate_transformation_mode mode output_height output_width sampling_ratio spatial_scale"),
    ("RotaryEmbedding", "interleaved num_heads rotary_embedding_dim"),
    ("Round", ""),
    ("STFT", "onesided"),
    (
        "Scan",
        "body directions num_scan_inputs scan_input_axes scan_input_directions scan_output_axes scan_output_directions",
    ),
    ("Scatter", "axis"),
    ("ScatterElements", "axis reduction"),
    ("ScatterND", "reduction"),
    ("Selu", "alpha consumed_inputs gamma"),
    ("SequenceAt", ""),
    ("SequenceConstruct", ""),
    ("SequenceEmpty", "dtype"),
    ("SequenceErase", ""),
    ("SequenceInsert", ""),
    ("SequenceLength", ""),
    ("SequenceMap", "body"),
    ("Shape", "end start"),
    ("Shrink", "bias lambd"),
    ("Sigmoid", "consumed_inputs"),
    ("Sign", ""),
    ("Sin", ""),
    ("Sinh", ""),
    ("Size", ""),
    ("Slice", "axes ends starts"),
    ("Softmax", "axis"),
    ("SoftmaxCrossEntropyLoss", "ignore_index reduction"),
    ("Softplus", ""),
    ("Softsign", ""),
    ("SpaceToDepth", "blocksize mode"),
    ("Split", "axis num_outputs split"),
    ("SplitToSequence", "axis keepdims"),
    ("Sqrt", "consumed_inputs"),
    ("Squeeze", "axes"),
    ("StringConcat", ""),
    ("StringNormalizer", "case_change_action is_case_sensitive locale stopwords"),
    ("StringSplit", "delimiter maxsplit"),
    ("Sub", "axis broadcast consumed_inputs"),
    ("Sum", "consumed_inputs"),
    ("SwiGLU", "alpha"),
    ("Swish", "alpha"),
    ("Tan", ""),
    ("Tanh", "consumed_inputs"),
    ("TensorScatter", "axis mode"),
    (
        "TfIdfVectorizer",
        "max_gram_length max_skip_count min_gram_length mode ngram_counts ngram_indexes pool_int64s \
         pool_strings weights",
    ),
    ("ThresholdedRelu", "alpha"),
    ("Tile", ""),
    ("TopK", "axis k largest sorted"),
    ("Transpose", "perm"),
    ("Trilu", "upper"),
    ("Unique", "axis sorted"),
    ("Unsqueeze", "axes"),
    ("Upsample", "height_scale mode scales width_scale"),
    ("Where", ""),
    ("Xor", "axis broadcast"),
];

/// Returns the attributes that any version of an operator of ONNX has, `None` if ONNX does not
/// have the operator.
pub fn attribute_names(operator: &str) -> Option<impl Iterator<Item = &'static str> + use<>> {
    let row = NAMES.binary_search_by_key(&operator, |row| row.0).ok()?;
    Some(NAMES[row].1.split_whitespace())
}

/// Checks that nodes have only attributes that a version of their operator has. Nodes of bodies and
/// of functions are checked too. Calls of functions and operators of other domains are not: their
/// attributes are not those of ONNX.
///
/// # Errors
/// All unknown attributes, each with the node, the operator and the attributes that exist.
pub(crate) fn check_attribute_names(model: &Model<'_>) -> Result<()> {
    let nodes = all_nodes(model).into_iter().flatten();
    let own = nodes.filter(|node| node.domain.is_empty() && !is_call(model, node));
    let problems = own.flat_map(|node| {
        let unknown = node.attributes.iter().filter(move |attribute| !is_known(&node.op_type, &attribute.name));
        unknown.map(move |attribute| {
            let place = format!("node '{}' ({})", label(node), node.op_type);
            let known: Vec<&str> = attribute_names(&node.op_type).into_iter().flatten().collect();
            let known = match known[..] {
                [] => "the operator does not have attributes".to_owned(),
                _ => format!("known: {}", known.join(", ")),
            };
            GraphError::new(format!("{place}: attribute `{}` is unknown; {known}", attribute.name))
        })
    });
    GraphError::all(problems.collect()).map_or(Ok(()), Err)
}

/// Tells whether a node may have an attribute. A name that begins with two underscores is a note of
/// the program that wrote the model: `onnx.checker` and onnxruntime accept it for each operator.
fn is_known(operator: &str, attribute: &str) -> bool {
    attribute.starts_with("__") || attribute_names(operator).is_none_or(|mut names| names.any(|name| name == attribute))
}

/// Tells whether a node calls a function of the model, which may have the name of an operator.
fn is_call(model: &Model<'_>, node: &Node<'_>) -> bool {
    model.functions.iter().any(|function| {
        function.name == node.op_type && function.domain == node.domain && function.overload == node.overload
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::op;

    #[test]
    fn names_are_sorted() {
        assert!(NAMES.is_sorted_by(|(one, _), (next, _)| one < next));
        for (operator, names) in NAMES {
            let names: Vec<&str> = names.split(' ').collect();
            assert!(names.is_sorted_by(|one, next| one < next), "{operator}");
        }
    }

    /// Operators of the compiler itself, which ONNX does not have.
    const NOT_OF_ONNX: &[&str] = &["Exp2", "Expm1", "Log1p", "Log2", "Rsqrt", "Trunc"];

    #[test]
    fn every_operator_is_listed() {
        let own = op::names().into_iter().filter(|name| op::domain_of(name).is_empty());
        let missing: Vec<&str> =
            own.filter(|name| attribute_names(name).is_none() && !NOT_OF_ONNX.contains(name)).collect();
        assert!(missing.is_empty(), "add a row to `NAMES` for {missing:?}");
    }

    #[test]
    fn attributes_of_old_versions_are_known() {
        for (operator, attributes) in [
            ("Relu", &["consumed_inputs"][..]),
            ("Dropout", &["is_test", "ratio", "consumed_inputs"]),
            ("BatchNormalization", &["spatial", "is_test", "consumed_inputs", "momentum"]),
            ("Add", &["axis", "broadcast"]),
            ("Gemm", &["broadcast"]),
            ("Pad", &["paddings", "pads", "value"]),
            ("LSTM", &["output_sequence"]),
            ("Upsample", &["height_scale", "scales"]),
            ("TopK", &["k"]),
            ("Softmax", &["__note"]),
            ("Frobnicate", &["anything"]),
        ] {
            for attribute in attributes {
                assert!(is_known(operator, attribute), "{operator} {attribute}");
            }
        }
        for (operator, attribute) in [("Softmax", "axes"), ("Relu", "alpha"), ("Not", ""), ("MatMul", "_axis")] {
            assert!(!is_known(operator, attribute), "{operator} {attribute}");
        }
    }

    /// Attributes of operators of other domains that the sources read.
    const OF_OTHER_DOMAINS: &[&str] = &[
        "aggregate_function",
        "decay_factor",
        "leaf_targetids",
        "leaf_weights",
        "membership_values",
        "n_targets",
        "nodes_featureids",
        "nodes_missing_value_tracks_true",
        "nodes_modes",
        "nodes_splits",
        "norm_coefficient",
        "norm_coefficient_post",
        "post_transform",
        "threshold",
        "tree_roots",
    ];

    /// Returns the names behind `attrs.method(` and `attrs, ` in a source.
    fn names_read(source: &str) -> Vec<&str> {
        let reads = source.split("attrs").skip(1).filter_map(|rest| {
            let argument = match rest.strip_prefix('.') {
                Some(method) => method.trim_start_matches(|letter: char| letter.is_alphanumeric() || letter == '_'),
                None => rest,
            };
            let name = argument.strip_prefix(['(', ',']).map(str::trim_start)?.strip_prefix('"')?;
            name.split_once('"').map(|(name, _)| name)
        });
        reads.collect()
    }

    /// The attributes that the importer and the operators read have to be listed: a model that has
    /// them would be refused.
    #[test]
    fn what_is_read_is_listed() {
        assert_eq!(names_read(r#"attrs.int("a", 0) size(call.attrs, "b") attrs.set(name, "c") Attrs"#), ["a", "b"]);
        let listed: BTreeSet<&str> = NAMES.iter().flat_map(|(_, names)| names.split(' ')).collect();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut count = 0;
        for folder in ["import", "op"] {
            for file in std::fs::read_dir(sources.join(folder)).unwrap() {
                let path = file.unwrap().path();
                // It has an example with an operator of the user's own.
                if path.ends_with("custom.rs") {
                    continue;
                }
                let source = std::fs::read_to_string(&path).unwrap();
                for name in names_read(&source) {
                    count += 1;
                    let is_listed = listed.contains(name) || OF_OTHER_DOMAINS.contains(&name);
                    assert!(is_listed, "{}: add `{name}` to the operator in `NAMES`", path.display());
                }
            }
        }
        assert!(count > 100, "only {count} reads are found");
    }
}
