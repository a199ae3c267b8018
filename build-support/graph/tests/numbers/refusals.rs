//! Numbers and shapes that an operator rejects, by the texts of their errors.

use kernpack_graph::onnx::attribute_names;

use super::extents::graph;
use super::table::{row, rows};

/// Calls of operators as in the table of all of them, and the text of the error.
const ROWS: &[(&str, &str)] = &[
    ("GatherND batch_dims=2|f:3 i:3,1,0", "attribute `batch_dims` is 2"),
    ("GatherND batch_dims=3|f:3,4 i:3,4,1,0", "attribute `batch_dims` is 3"),
    ("GatherND batch_dims=-1|f:3,4 i:3,1", "attribute `batch_dims` is"),
    ("SpaceToDepth blocksize=524288|f:1,1073741824,0,0", "the channels of the result, for `blocksize` 524288,"),
    ("ConvTranspose group=1099511627776|f:1,0,5,5 f:0,1073741824,3,3", "the channels of the result, for `group`"),
    ("DeformConv offset_group=1099511627776|f:1,0,5,5 f:4,0,3,3 f:1,18,3,3", "the number of offsets"),
    (
        "Attention q_num_heads=4611686018427387904 kv_num_heads=1|f:1,3,0 f:1,5,0 f:1,5,1073741824",
        "the last dimension of the result, for `q_num_heads`",
    ),
    ("Tile|f:0,3 =-1,1", "repeats [-1, 1] of [0, 3] are below 0"),
    ("Split axis=0|f:3 =4611686018427387904,4611686018427387904", "`split` has the number"),
    ("DFT|f:0,4,1 =#-1 =#1", "a transform of -1 elements"),
    ("DFT onesided=1|f:0,4,1 =#-1 =#1", "a transform of -1 elements"),
    ("DFT|f:2,4,1 =#0 =#1", "a transform of 0 elements"),
    ("DFT axis=1|f:2,3,4,1", "attribute `axis` is of versions before 20"),
    ("QuantizeLinear axis=1 block_size=2|f:3,4 f:3,1", "do not fit [3, 4] in blocks of 2"),
    ("DequantizeLinear axis=0 block_size=3|u:7,2 f:2,2", "do not fit [7, 2] in blocks of 3"),
    ("Range|=~#0.0 =~#NaN =~#1.0", "there are no steps of 1"),
    ("NegativeLogLikelihoodLoss|f:2,3 i:2 f:4", "weights [4] for 3 classes"),
    ("NegativeLogLikelihoodLoss|f:3 i:3", "expected scores of classes, got [3]"),
    ("LayerNormalization|f:2,3 f:3,1,1", "an input [3, 1, 1] is not broadcast to [2, 3]"),
    ("LayerNormalization|f:2,3 f:3 f:2,2,3", "an input [2, 2, 3] is not broadcast to [2, 3]"),
    ("RMSNormalization|f:2,3 f:4", "an input [4] is not broadcast to [2, 3]"),
    ("Conv|f:1,2,5,5 f:4,2,3,3 f:3", "a bias [3] for 4 filters"),
    ("ConvTranspose|f:1,2,5,5 f:2,4,3,3 f:3", "a bias [3] for 4 filters"),
    ("Add axis=1|f:2,3,3 f:3", "attribute `axis` is 1, and is of versions before 7"),
    ("Mul axis=-2 broadcast=1|f:2,3,3 f:3", "attribute `axis` is -2, and is of versions"),
    ("Conv auto_pad=SAME|f:1,2,5 f:4,2,3", "attribute `auto_pad` is `SAME`, which is unknown"),
    ("ConvTranspose auto_pad=SAME|f:1,2,5 f:2,1,3", "attribute `auto_pad` is `SAME`, which is unknown"),
    ("ConvTranspose auto_pad=SAME output_shape=[7]|f:1,2,5 f:2,1,3", "attribute `auto_pad` is `SAME`"),
    ("Conv kernel_shape=[5]|f:1,2,5 f:4,2,3", "attribute `kernel_shape` is [5], the weights are [4, 2, 3]"),
    ("ConvTranspose kernel_shape=[5]|f:1,2,5 f:2,1,3", "attribute `kernel_shape` is [5], the weights are [2, 1, 3]"),
    (
        "DeformConv kernel_shape=[5,5]|f:1,2,5,5 f:4,2,3,3 f:1,18,3,3",
        "attribute `kernel_shape` is [5, 5], the weights are [4, 2, 3, 3]",
    ),
    ("BatchNormalization|f:1,4,5,5 f:4 f:4 f:3 f:4", "numbers by channel of the shape [3], expected [4]"),
    ("InstanceNormalization|f:1,4,5,5 f:4 f:2", "numbers by channel of the shape [2], expected [4]"),
    ("GroupNormalization num_groups=2|f:1,4,5,5 f:3 f:4", "numbers by channel of the shape [3], expected [4]"),
    ("GroupNormalization num_groups=2|f:1,4,5,5 f:2 f:2", "numbers by channel of the shape [2], expected [4]"),
    ("Concat|f:2,3 f:2,3", "attribute `axis` is missing"),
    ("ConvTranspose output_shape=[]|f:1,2,5 f:2,1,3", "attribute `output_shape` is []: expected 1 extents"),
    ("ConvTranspose output_shape=[7,7]|f:1,2,5 f:2,1,3", "attribute `output_shape` is [7, 7]: expected 1 extents"),
    ("ConvTranspose output_shape=[1,2,7]|f:1,2,5 f:2,1,3", "or 3 that begin with [1, 1]"),
    ("ConvTranspose output_shape=[1,1,1,7]|f:1,2,5 f:2,1,3", "attribute `output_shape` is [1, 1, 1, 7]"),
    ("QuantizeLinear precision=11|f:3 f: u:", "attribute `precision` is 11"),
    ("QuantizeLinear precision=2|f:3 f: u:", "attribute `precision` is 2"),
    ("QuantizeLinear block_size=-1|f:3 f: u:", "attribute `block_size` is -1"),
    ("DequantizeLinear block_size=-2|u:3 f: u:", "attribute `block_size` is -2"),
    ("QuantizeLinear output_dtype=7|f:3 f:", "quantization to int64 is not supported"),
    ("QuantizeLinear output_dtype=9|f:3 f:", "quantization to bool is not supported"),
    ("QuantizeLinear output_dtype=1|f:3 f:", "quantization to float32 is not supported"),
    ("QuantizeLinear output_dtype=16|f:3 f:", "quantization to bfloat16 is not supported"),
    ("QuantizeLinear output_dtype=99|f:3 f:", "element type"),
    ("DequantizeLinear output_dtype=3|u:3 f:", "attribute `output_dtype` names another type"),
    ("DequantizeLinear|u:3 f: c:", "input 2, the zero point, is int8, and input 0 is uint8"),
    (
        "AveragePool kernel_shape=[1099511627776,1048576] pads=[1099511627776,1099511627776,0,1048576]|f:1,1,5,5",
        "attribute `kernel_shape`",
    ),
    (
        "MaxPool kernel_shape=[1048576,1048577] pads=[1048576,1048576,1048576,1048576]|f:1,1,5,5>2",
        "attribute `kernel_shape`",
    ),
    // Intermediate tensors of an operator have a limit, too.
    (
        "ConvTranspose strides=[2,2]|f:1,1048576,1000,1000 f:1048576,1,3,3",
        "the tensor 'spread' on the way to the result",
    ),
    (
        "Resize mode=linear antialias=1|f:1,1099511627776 - =~1.0,0.00001",
        "the tensor 'indices' on the way to the result",
    ),
    ("RoiAlign sampling_ratio=1099511627776|f:2,1,4,4 f:3,4 i:3", "attribute `sampling_ratio` is 1099511627776"),
    ("Attention|f:1,1,2097152,1 f:1,1,2097152,1 f:1,1,2097152,1", "on the way to the result"),
    ("GridSample|f:1,1,1,1,1,1,1,1,1,1,1 f:1,1,1,1,1,1,1,1,1,1,9", "9 spatial axes are not supported: at most 8 are"),
];

/// Attributes together with an equivalent input, and attributes that contradict others: the error
/// names both.
const CONTRADICTIONS: &[(&str, [&str; 2])] = &[
    ("Clip min=1.5|f:3 f:", ["`min`", "input 1"]),
    ("Clip max=1.5|f:3 - f:", ["`max`", "input 2"]),
    ("DFT axis=1|f:2,4,1 - =#1", ["`axis`", "input 2"]),
    ("Dropout ratio=0.5|f:3 f:", ["`ratio`", "input 1"]),
    ("Pad pads=[1,1]|f:3 =1,1", ["`pads`", "input 1"]),
    ("Pad value=1.5|f:3 =1,1 f:", ["`value`", "input 2"]),
    ("ReduceSum axes=[1]|f:2,3 =1", ["`axes`", "input 1"]),
    ("ReduceL2 axes=[1]|f:2,3 =1", ["`axes`", "input 1"]),
    ("Reshape shape=[6]|f:2,3 =3,2", ["`shape`", "input 1"]),
    ("Slice starts=[0]|f:3 =1 =3", ["`starts`", "input 1"]),
    ("Slice ends=[2]|f:3 =1 =3", ["`ends`", "input 2"]),
    ("Slice axes=[1]|f:3,3 =1 =3 =0", ["`axes`", "input 3"]),
    ("Split split=[1,4]|f:5 =2,3>2", ["`split`", "input 1"]),
    ("Split num_outputs=2|f:5 =2,3>2", ["`num_outputs`", "input 1"]),
    ("Squeeze axes=[0]|f:1,3,1 =2", ["`axes`", "input 1"]),
    ("Unsqueeze axes=[0]|f:3 =1", ["`axes`", "input 1"]),
    ("TopK k=1|f:3 =2>2", ["`k`", "input 1"]),
    ("Upsample scales=[1,2]|f:3,3 =~1.0,2.0", ["`scales`", "input 1"]),
    ("ReverseSequence batch_axis=1 time_axis=1|f:3,3 i:3", ["`batch_axis`", "`time_axis`"]),
    ("ReverseSequence batch_axis=0|f:3,3 i:3", ["`batch_axis`", "`time_axis`"]),
    ("ReverseSequence batch_axis=-1 time_axis=1|f:3,3 i:3", ["`batch_axis`", "`time_axis`"]),
    ("MaxPool kernel_shape=[3] auto_pad=SAME_UPPER pads=[2,2]|f:1,2,5", ["`auto_pad`", "`pads`"]),
    ("AveragePool kernel_shape=[3] auto_pad=VALID pads=[1,1]|f:1,2,5", ["`auto_pad`", "`pads`"]),
    ("LpPool kernel_shape=[2] auto_pad=SAME_LOWER pads=[0,1]|f:1,2,5", ["`auto_pad`", "`pads`"]),
    ("Conv auto_pad=SAME_LOWER pads=[2,2]|f:1,2,5 f:4,2,3", ["`auto_pad`", "`pads`"]),
    ("ConvInteger auto_pad=VALID pads=[1,1]|u:1,2,5 u:4,2,3", ["`auto_pad`", "`pads`"]),
    ("ConvTranspose strides=[2] auto_pad=SAME_UPPER pads=[1,1]|f:1,2,5 f:2,1,3", ["`auto_pad`", "`pads`"]),
    ("ConvTranspose strides=[2] auto_pad=VALID pads=[1,1]|f:1,2,5 f:2,1,3", ["`auto_pad`", "`pads`"]),
    ("QuantizeLinear output_dtype=3|f:3 f: u:", ["`output_dtype`", "input 2"]),
];

/// Attributes that seem to contradict others, but do not.
const ACCEPTED: &[&str] = &[
    "ConvTranspose strides=[2] output_shape=[10] pads=[1,1]|f:1,2,5 f:2,1,3",
    "ConvTranspose strides=[2] output_shape=[10] auto_pad=VALID|f:1,2,5 f:2,1,3",
    "ConvTranspose strides=[2] output_shape=[10] auto_pad=SAME_LOWER pads=[1,1]|f:1,2,5 f:2,1,3",
    "ConvTranspose strides=[2] output_shape=[10] output_padding=[1]|f:1,2,5 f:2,1,3",
    "ConvTranspose strides=[2] output_shape=[1,1,10]|f:1,2,5 f:2,1,3",
    "QuantizeLinear precision=1|f:3 f: u:",
    "QuantizeLinear precision=10|f:3 f: u:",
    "QuantizeLinear precision=16|f:3 f: u:",
    "ConvTranspose strides=[2] auto_pad=SAME_UPPER pads=[0,0]|f:1,2,5 f:2,1,3",
    "ConvTranspose strides=[2] auto_pad=SAME_UPPER pads=[0,1]|f:1,2,5 f:2,1,3",
    "ConvTranspose strides=[2] output_padding=[2]|f:1,2,5 f:2,1,3",
    "ConvTranspose auto_pad=NOTSET kernel_shape=[3]|f:1,2,5 f:2,1,3",
    "DeformConv kernel_shape=[3,3]|f:1,2,5,5 f:4,2,3,3 f:1,18,3,3",
    "Conv auto_pad=SAME_UPPER pads=[0,0]|f:1,2,5 f:4,2,3",
    "Conv auto_pad=SAME_UPPER pads=[1,1]|f:1,2,5 f:4,2,3",
    "Conv auto_pad=NOTSET pads=[2,1]|f:1,2,5 f:4,2,3",
    "MaxPool kernel_shape=[3] auto_pad=VALID pads=[0,0]|f:1,2,5",
    "MaxPool kernel_shape=[2] auto_pad=SAME_LOWER pads=[1,0]|f:1,2,5",
    "MaxUnpool kernel_shape=[2] strides=[2] pads=[0,0]|f:1,1,2 i:1,1,2 =1,1,6",
    "QuantizeLinear axis=1 block_size=2|f:3,4 f:4 u:4",
    "DequantizeLinear axis=1 block_size=2|u:3,4 f:4 u:4",
    "QuantizeLinear block_size=2|f:3,4 f: u:",
    "QuantizeLinear|f:3 f:3 u:3",
    "DequantizeLinear|u:3 f:3 u:3",
    "QuantizeLinear axis=0 block_size=2|f:4 f:2 u:2",
    "QuantizeLinear axis=0 block_size=2|f:5 f:3",
    "DequantizeLinear block_size=2|u:5 f:3 u:3",
    "QuantizeLinear output_dtype=2|f:3 f: u:",
    "QuantizeLinear output_dtype=3|f:3 f:",
    "Clip min=1.5|f:3 - f:",
    "Clip min=1.5 max=2.5|f:3",
    "Dropout ratio=0.5|f:3",
    "Pad pads=[1,1] value=1.5|f:3",
    "Slice starts=[1] ends=[3]|f:3",
    "Split split=[2,3]|f:5>2",
    "Squeeze axes=[0]|f:1,3",
    "TopK k=1|f:3>2",
    "LRN size=1099511627776|f:1,4,2,2",
    "Add axis=2 broadcast=1|f:2,3,3 f:3",
    "Add axis=1|f:2,3,3 f:3,3",
    "Add axis=0|f:2,3,3 f:1",
    "Add axis=0|f: f:",
];

#[test]
fn contradictions_name_both() {
    for (text, wanted) in CONTRADICTIONS {
        let error = graph(&row(text, 1), false).err().unwrap_or_else(|| panic!("{text} is accepted"));
        assert!(error.contains("node 'tested'") && wanted.iter().all(|name| error.contains(name)), "{text}: {error}");
    }
}

#[test]
fn attributes_that_fit_are_accepted() {
    for text in ACCEPTED {
        graph(&row(text, 1), false).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

/// The rows do not become files of models: a file with an attribute that is not listed is refused.
#[test]
fn attributes_of_rows_are_listed() {
    let refused = ROWS.iter().map(|(text, _)| *text);
    let all = rows(2).into_iter().chain(ACCEPTED.iter().copied().chain(refused).map(|text| row(text, 1)));
    for row in all {
        // Operators of the compiler itself are not listed.
        let domains = ["", "ai.onnx.ml", "ai.onnx.preview.training"];
        let Some(names) = domains.iter().find_map(|domain| attribute_names(domain, &row.name)) else { continue };
        let names: Vec<&str> = names.collect();
        for (name, _) in &row.attrs {
            assert!(names.contains(&name.as_str()), "{}: `{name}` is not listed", row.text);
        }
    }
}

#[test]
fn errors_name_what_is_wrong() {
    for (text, wanted) in ROWS {
        let error = graph(&row(text, 1), false).err().unwrap_or_else(|| panic!("{text} is accepted"));
        assert!(error.contains("node 'tested'") && error.contains(wanted), "{text}: {error}");
    }
}

/// Blocks of which the last one is smaller.
#[test]
fn blocks_that_do_not_fill_an_axis() {
    for text in ["QuantizeLinear axis=1 block_size=3|f:2,7 f:2,3", "DequantizeLinear axis=0 block_size=3|u:7,2 f:3,2"] {
        graph(&row(text, 1), false).unwrap();
    }
}
