//! A call of every operator as a line of text, in which `n` is the extent of a batch.

use kernpack::DataType;
use kernpack_compiler::ir::{BOOLEAN, F32, I8, I32, I64, U8};
use kernpack_graph::{Attr, Constant};

/// Operators on one float per element.
const OF_ONE: &str = "Abs Neg Ceil Floor Round Sqrt Exp Log Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Erf Sigmoid \
    Reciprocal Sign IsNaN IsInf Relu LeakyRelu Elu Selu Celu ThresholdedRelu HardSigmoid HardSwish Softplus Softsign Mish Swish \
    Shrink Gelu Log1p Expm1 Exp2 Log2 Trunc Rsqrt Identity Dropout Binarizer Softmax LogSoftmax Hardmax Flatten Transpose \
    LpNormalization ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceSumSquare \
    ReduceLogSumExp";

/// Operators on elements of two float inputs.
const OF_TWO: &str =
    "Add Sub Mul Div Sum Pow PRelu Max Min Mean Equal Greater Less GreaterOrEqual LessOrEqual CastLike Concat SwiGLU";

/// The others: a name, attributes, `|`, inputs, and after `>` the number of outputs if it is not 1.
/// Inputs are known integers `=1,2` (`=#3` without dimensions), known floats `=~1,2`, or a letter
/// for the type and a shape; `-` is missing.
const OTHERS: &[&str] = &[
    "And|b:n,3 b:n,3",
    "Or|b:n,3 b:n,3",
    "Xor|b:n,3 b:n,3",
    "Not|b:n,3",
    "BitShift direction=LEFT|u:n,3 u:n,3",
    "BitShift direction=RIGHT|i:n,3 i:n,3",
    "BitwiseAnd|i:n,3 i:n,3",
    "BitwiseOr|i:n,3 i:n,3",
    "BitwiseXor|i:n,3 i:n,3",
    "BitwiseNot|i:n,3",
    "Mod fmod=1|f:n,3 f:n,3",
    "Mod|f:n,3 f:n,3",
    "Div|i:n,3 i:n,3",
    "Clip|f:n,3 f: f:",
    "Cast to=7|f:n,3",
    "BitCast to=6|f:n,3",
    "Where|b:n,3 f:n,3 f:n,3",
    "Softmax axis=1|f:n,3",
    "LogSoftmax axis=0|f:3,n",
    "Hardmax axis=0|f:3,n",
    "LayerNormalization axis=1|f:n,3 f:3 f:3>3",
    "RMSNormalization axis=-1|f:n,3 f:3",
    "InstanceNormalization|f:n,2,5 f:2 f:2",
    "GroupNormalization num_groups=2|f:n,4,5 f:4 f:4",
    "MeanVarianceNormalization axes=[1,2]|f:n,2,3",
    "BatchNormalization|f:n,2,3 f:2 f:2 f:2 f:2",
    "LRN size=3|f:n,4,2,2",
    "MaxPool kernel_shape=[2,2] strides=[1,1] pads=[1,0,1,0] dilations=[1,1] storage_order=1 ceil_mode=1|f:n,2,5,5>2",
    "MaxPool kernel_shape=[3] auto_pad=SAME_UPPER strides=[2]|f:n,2,5",
    "AveragePool kernel_shape=[2,2] strides=[1,1] pads=[1,0,1,0] dilations=[1,1] ceil_mode=1|f:n,2,5,5",
    "LpPool kernel_shape=[2,2] strides=[1,1] pads=[1,0,1,0] p=2|f:n,2,5,5",
    "GlobalLpPool p=2|f:n,2,5,5",
    "GlobalAveragePool|f:n,2,5,5",
    "GlobalMaxPool|f:n,2,5,5",
    "Conv strides=[1,1] pads=[1,0,1,0] dilations=[1,1] group=1 kernel_shape=[3,3]|f:n,2,5,5 f:4,2,3,3 f:4",
    "Conv auto_pad=SAME_LOWER strides=[2] dilations=[1]|f:n,2,5 f:4,2,3",
    "ConvTranspose strides=[2,2] pads=[1,0,1,0] dilations=[1,1] output_padding=[0,1] group=1|f:n,2,5,5 f:2,4,3,3",
    "ConvTranspose strides=[2] output_shape=[10] group=2|f:n,2,5 f:2,1,3",
    "ConvTranspose strides=[2] auto_pad=SAME_UPPER|f:n,2,5 f:2,1,3",
    "ConvInteger strides=[1,1] pads=[1,0,1,0] dilations=[1,1] group=1|u:n,2,5,5 u:4,2,3,3",
    "QLinearConv strides=[1,1] pads=[1,0,1,0] dilations=[1,1] group=1|u:n,2,5,5 f: u: u:4,2,3,3 f: u: f: u:",
    "DeformConv strides=[1,1] pads=[0,0,0,0] dilations=[1,1] group=1 offset_group=1|f:n,2,5,5 f:4,2,3,3 f:n,18,3,3",
    "Col2Im strides=[1,1] pads=[0,0,0,0] dilations=[1,1]|f:n,8,9 =4,4 =2,2",
    "MaxUnpool kernel_shape=[2,2] strides=[2,2] pads=[0,0,0,0]|f:n,1,2,2 i:n,1,2,2",
    "MaxUnpool kernel_shape=[2] strides=[2]|f:1,1,2 i:1,1,2 =1,1,6",
    "RoiAlign output_height=2 output_width=2 sampling_ratio=1|f:2,1,4,4 f:n,4 i:n",
    "GridSample|f:n,1,4,4 f:n,3,3,2",
    "AffineGrid|f:2,2,3 =2,1,3,3",
    "Resize axes=[2,3]|f:n,1,4,4 - - =6,6",
    "Resize mode=linear axes=[2,3]|f:n,1,4,4 - =~1.5,2.0",
    "Upsample|f:n,1,4,4 =~1.0,1.0,2.0,2.0",
    "MatMul|f:n,2,3 f:3,4",
    "Gemm transA=0 transB=1|f:n,3 f:4,3 f:4",
    "MatMulInteger|u:n,3 u:3,4",
    "QLinearMatMul|u:n,3 f: u: u:3,4 f: u: f: u:",
    "QuantizeLinear axis=1|f:n,3 f:3 u:3",
    "QuantizeLinear axis=1 block_size=2|f:n,4 f:n,2 u:n,2",
    "DequantizeLinear axis=1|u:n,3 f:3 u:3",
    "DynamicQuantizeLinear|f:n,3>3",
    "Einsum equation=ij,jk->ik|f:n,3 f:3,4",
    "Det|f:n,2,2",
    "Attention q_num_heads=2 kv_num_heads=1 is_causal=1|f:n,3,8 f:n,5,4 f:n,5,4",
    "Attention is_causal=1 left_window_size=2 right_window_size=1|f:n,2,3,4 f:n,1,5,4 f:n,1,5,4 - - - i:n",
    "LinearAttention q_num_heads=2 kv_num_heads=1|f:n,3,8 f:n,3,4 f:n,3,6 - f:n,3,4 f:n,3,1>2",
    "LinearAttention q_num_heads=2 kv_num_heads=2 update_rule=linear|f:n,3,8 f:n,3,8 f:n,3,4 f:n,2,4,2>2",
    "CausalConvWithState activation=silu|f:n,2,5 f:2,1,3 f:2 f:n,2,2>2",
    "RotaryEmbedding num_heads=2 rotary_embedding_dim=0|f:n,3,8 f:n,3,2 f:n,3,2",
    "Gather axis=1|f:n,3 i:2",
    "Gather axis=0|f:3,2 i:n",
    "GatherElements axis=1|f:n,3 i:n,2",
    "GatherND batch_dims=1|f:n,3 i:n,1",
    "ReverseSequence batch_axis=1 time_axis=0|f:3,n i:n",
    "ReverseSequence batch_axis=0 time_axis=1|f:n,3 i:n",
    "Scatter axis=1|f:n,3 i:n,2 f:n,2",
    "ScatterElements axis=1|f:n,3 i:n,2 f:n,2",
    "ScatterND|f:4,2 i:n,1 f:n,2",
    "TensorScatter|f:n,5,3 f:n,2,3 i:n",
    "TensorScatter mode=circular axis=1|f:n,5,3 f:n,2,3",
    "ArrayFeatureExtractor|f:n,3 i:2",
    "ArgMax axis=1 keepdims=1 select_last_index=1|f:n,3",
    "ArgMax axis=-1 keepdims=0|f:n,3",
    "ArgMin axis=0|f:3,n",
    "CumProd|f:n,3 =#1",
    "CumProd exclusive=1 reverse=1|f:n,3 =#0",
    "CumSum|f:n,3 =#1",
    "CumSum|f:n,3 =#0",
    "ReduceSum|f:n,3 =1",
    "ReduceMax keepdims=0|f:n,3 =1",
    "TopK axis=1|f:n,3 =2>2",
    "Unique axis=1|f:2,3",
    "NonZero|f:3",
    "Compress axis=1|f:n,3 b:3",
    "NonMaxSuppression|f:1,4,4 f:1,1,4 =2 =~0.5 =~0.5",
    "Reshape allowzero=0|f:n,6 =0,2,3",
    "Reshape|f:n,6 =-1,3",
    "Flatten axis=1|f:n,2,3",
    "Squeeze|f:n,1,3 =1",
    "Unsqueeze|f:n,3 =1",
    "Shape start=0 end=2|f:n,3,4",
    "Size|f:2,3",
    "Transpose perm=[1,0]|f:n,3",
    "Split axis=1 num_outputs=2|f:n,5>2",
    "Split axis=1|f:n,5 =2,3>2",
    "Slice|f:n,5 =1,0 =4,9 =1,0 =2,1",
    "Expand|f:n,1 =1,4",
    "Tile|f:n,3 =2,2",
    "Pad mode=constant|f:n,3 =0,1,0,2 f:",
    "Pad mode=reflect|f:n,3 =0,1,0,2",
    "Pad mode=edge|f:n,3 =1,2 - =1",
    "Pad mode=wrap|f:n,3 =1,2 - =1",
    "CenterCropPad axes=[1]|f:n,5 =3",
    "DepthToSpace blocksize=2|f:n,4,2,2",
    "SpaceToDepth blocksize=2|f:n,1,4,4",
    "SpaceToDepth blocksize=2 mode=CRD|f:n,2,4,4",
    "ConstantOfShape|=2,3",
    "Range|=#0 =#5 =#2",
    "EyeLike k=1|f:n,3",
    "OneHot axis=-1|i:n,2 =#4 f:2",
    "Trilu upper=1|f:n,3,3 =#1",
    "DFT inverse=0 onesided=0|f:n,4,1 =#4 =#1",
    "DFT inverse=1 onesided=1|f:n,3,2 =#4 =#1",
    "STFT onesided=1|f:n,8,1 =#2 - =#4",
    "HannWindow periodic=1|=#5",
    "HammingWindow periodic=0|=#5",
    "BlackmanWindow|=#5",
    "MelWeightMatrix|=#4 =#16 =#8000 =~#0.0 =~#4000.0",
    "NegativeLogLikelihoodLoss reduction=none ignore_index=-1|f:n,3 i:n",
    "NegativeLogLikelihoodLoss reduction=sum|f:n,3,2 i:n,2",
    "SoftmaxCrossEntropyLoss reduction=none|f:n,3 i:n>2",
    "Adagrad|f: i: f:n,3 f:n,3 f:n,3>2",
    "Adam|f: i: f:n,3 f:n,3 f:n,3 f:n,3>3",
    "Momentum alpha=0.9 beta=0.5 norm_coefficient=0.0 mode=standard|f: i: f:n,3 f:n,3 f:n,3>2",
    "TfIdfVectorizer mode=TF max_skip_count=1 min_gram_length=1 max_gram_length=1 pool_int64s=[2,3] ngram_counts=[0] ngram_indexes=[0,1]|i:n,3",
];

/// An input of a row.
#[derive(Clone, Debug)]
pub(crate) enum Given {
    /// An unknown tensor.
    Argument(DataType, Vec<i64>),
    /// A known tensor.
    Known(Constant),
}

/// A call of an operator.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) text: String,
    pub(crate) name: String,
    pub(crate) attrs: Vec<(String, Attr)>,
    pub(crate) inputs: Vec<Option<Given>>,
    pub(crate) outputs: usize,
    /// True if it has a batch.
    pub(crate) has_batch: bool,
}

fn numbers<T: core::str::FromStr>(list: &str) -> Vec<T> {
    list.split(',').filter(|word| !word.is_empty()).map(|word| word.parse().ok().expect(list)).collect()
}

fn attribute(word: &str) -> (String, Attr) {
    let (name, value) = word.split_once('=').unwrap();
    let value = match (value.strip_prefix('['), value.parse::<i64>(), value.parse::<f32>()) {
        (Some(list), ..) => Attr::Ints(numbers(list.trim_end_matches(']'))),
        (_, Ok(int), _) => Attr::Int(int),
        (_, _, Ok(float)) => Attr::Float(float),
        _ => Attr::Text(value.to_owned()),
    };
    (name.to_owned(), value)
}

fn input(word: &str, n: i64) -> Option<Given> {
    if word == "-" {
        return None;
    }
    if let Some(known) = word.strip_prefix('=') {
        let is_scalar = known.contains('#');
        let known = known.replace('#', "");
        let constant = match known.strip_prefix('~') {
            Some(floats) => Constant::of_floats(&numbers(floats)),
            None => Constant::of_ints(&numbers(&known)),
        };
        return Some(Given::Known(if is_scalar { constant.reshaped(&[]).unwrap() } else { constant }));
    }
    let (letter, shape) = word.split_once(':').unwrap();
    let dtype = match letter {
        "f" => F32,
        "i" => I64,
        "I" => I32,
        "u" => U8,
        "c" => I8,
        "b" => BOOLEAN,
        other => panic!("{other} in {word}"),
    };
    Some(Given::Argument(dtype, numbers(&shape.replace('n', &n.to_string()))))
}

pub(crate) fn row(text: &str, n: i64) -> Row {
    let (operator, inputs) = text.split_once('|').unwrap();
    let (inputs, outputs) =
        inputs.split_once('>').map_or((inputs, 1), |(inputs, count)| (inputs, count.parse().unwrap()));
    let mut words = operator.split(' ');
    Row {
        text: text.to_owned(),
        name: words.next().unwrap().to_owned(),
        attrs: words.map(attribute).collect(),
        inputs: inputs.split(' ').map(|word| input(word, n)).collect(),
        outputs,
        has_batch: inputs.contains('n'),
    }
}

/// Returns calls of all operators with a batch of this extent.
pub(crate) fn rows(n: i64) -> Vec<Row> {
    let mut all: Vec<Row> = OF_ONE.split_whitespace().map(|name| row(&format!("{name}|f:n,3"), n)).collect();
    all.extend(OF_TWO.split_whitespace().map(|name| {
        let axis = if name == "Concat" { " axis=1" } else { "" };
        row(&format!("{name}{axis}|f:n,3 f:n,3"), n)
    }));
    all.extend(OTHERS.iter().map(|text| row(text, n)));
    all
}
