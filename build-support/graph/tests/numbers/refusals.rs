//! Numbers and shapes that an operator does not accept, by the texts of their errors.

use super::extents::graph;
use super::table::row;

/// Uses of operators as in the table of all of them, and what the error says.
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
    ("BatchNormalization|f:1,4,5,5 f:4 f:4 f:3 f:4", "numbers by channel of the shape [3], expected [4]"),
    ("InstanceNormalization|f:1,4,5,5 f:4 f:2", "numbers by channel of the shape [2], expected [4]"),
    ("GroupNormalization num_groups=2|f:1,4,5,5 f:3 f:4", "numbers by channel of the shape [3], expected [4]"),
    // What an operator makes on the way has a limit, too.
    (
        "ConvTranspose strides=[2,2]|f:1,1048576,1000,1000 f:1048576,1,3,3",
        "the tensor 'spread' on the way to the result",
    ),
    (
        "Resize mode=linear antialias=1|f:1,1099511627776 - =~1.0,0.00001",
        "the tensor 'indices' on the way to the result",
    ),
    ("Attention|f:1,1,2097152,1 f:1,1,2097152,1 f:1,1,2097152,1", "on the way to the result"),
    ("GridSample|f:1,1,1,1,1,1,1,1,1,1,1 f:1,1,1,1,1,1,1,1,1,1,9", "9 spatial axes are not supported: at most 8 are"),
];

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
