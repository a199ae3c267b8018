//! The operators of NNVM 0.5: all are registered, with its levels, patterns and attributes, and are
//! computed if NNVM computes them.

use kernpack_nnvm::symbol::registry::{self, Cell};

/// Name, level of support, fusion pattern, whether it is computed (`c`), and the names of its
/// attributes if they are known. `-` means none.
///
/// Two cells differ from NNVM's: the convolution with a transformed weight is computed by
/// statements here, so nothing joins its kernel (8 for 4), and the `scalar` that `ones_like` has
/// there is unused.
const TABLE: &str = "\
__add_scalar__ 3 0 c -
__div_scalar__ 3 0 c -
__layout_transform__ - 2 c src_layout,dst_layout
__lshift_scalar__ 3 0 c -
__mul_scalar__ 3 0 c -
__pow_scalar__ 3 0 c -
__rdiv_scalar__ 3 0 c -
__rpow_scalar__ 3 0 c -
__rshift_scalar__ 3 0 c -
__rsub_scalar__ 3 0 c -
__sub_scalar__ 3 0 c -
__undef__ - - - -
_assign - 8 c -
_contrib_conv2d_NCHWc - 4 c channels,kernel_size,strides,padding,dilation,groups,layout,out_layout,kernel_layout,use_bias,dtype
_contrib_conv2d_winograd_weight_transform - 4 c tile_size
_contrib_conv2d_winograd_without_weight_transform - 8 c channels,kernel_size,strides,padding,dilation,groups,layout,out_layout,kernel_layout,use_bias,tile_size,dtype
_conv2d_grad - - - channels,kernel_size,strides,padding,dilation,groups,layout,out_layout,kernel_layout,use_bias,dtype
_max_mask - - c axis,exclude
_max_pool2d_grad - - - pool_size,strides,padding,layout,ceil_mode
_min_mask - - c axis,exclude
abs 3 0 c -
argmax 4 3 c -
argmin 4 3 c -
avg_pool2d 2 4 c pool_size,strides,padding,layout,ceil_mode,count_include_pad
batch_norm 1 - - axis,epsilon,center,scale
block_grad 1 0 c -
broadcast_add 4 1 c -
broadcast_div 4 1 c -
broadcast_equal 4 1 c -
broadcast_greater 4 1 c -
broadcast_greater_equal 4 1 c -
broadcast_left_shift 4 1 c -
broadcast_less 4 1 c -
broadcast_less_equal 4 1 c -
broadcast_max 4 1 c -
broadcast_min 4 1 c -
broadcast_mod 4 1 c -
broadcast_mul 4 1 c -
broadcast_not_equal 4 1 c -
broadcast_pow 4 1 c -
broadcast_right_shift 4 1 c -
broadcast_sub 4 1 c -
broadcast_to 4 1 c shape
cast - 0 c dtype
ceil 3 0 c -
clip 4 0 c a_min,a_max
collapse_sum 4 3 c -
concatenate 1 2 c axis
conv2d 2 4 c channels,kernel_size,strides,padding,dilation,groups,layout,out_layout,kernel_layout,use_bias,dtype
conv2d_transpose 2 4 c channels,kernel_size,strides,output_padding,padding,dilation,groups,layout,kernel_layout,use_bias,dtype
copy 3 0 c -
dense 1 4 c units,use_bias
dropout 1 - - rate
elemwise_add 1 1 c -
elemwise_div 1 1 c -
elemwise_mod 1 1 c -
elemwise_mul 1 1 c -
elemwise_pow 1 1 c -
elemwise_sub 1 1 c -
elemwise_sum 1 0 c -
exp 1 0 c -
expand_dims 1 1 c axis,num_newaxis
expand_like 4 1 c axis,exclude
flatten 1 2 c -
flip 1 2 c axis
floor 3 0 c -
full 4 4 c shape,fill_value,dtype
full_like 4 0 c fill_value
gather_nd 1 2 c -
global_avg_pool2d 2 4 c layout
global_max_pool2d 2 4 c layout
greater 4 0 c -
l2_normalize 1 4 c eps,axis
leaky_relu 3 0 c alpha
less 4 0 c -
log 1 0 c -
log_softmax 1 8 c axis
lrn 1 8 c size,axis,alpha,beta,bias
matmul 1 4 c transpose_a,transpose_b
max 4 3 c -
max_pool2d 2 4 c pool_size,strides,padding,layout,ceil_mode
mean 4 3 c -
min 4 3 c -
multibox_detection - 8 - -
multibox_prior 5 8 c sizes,ratios,steps,offsets,clip
multibox_transform_loc 5 - c clip,threshold,variances
negative 3 0 c -
nms 5 8 c nms_threshold,force_suppress,nms_topk
ones 4 4 c shape,dtype
ones_like 4 0 c -
pad 1 2 c pad_value,pad_width
prelu 1 1 c axis
prod 4 3 c -
relu 1 0 c -
reshape 3 2 c shape
reshape_like 4 2 c -
resize 1 2 c -
round 3 0 c -
sigmoid 1 0 c -
slice_like 4 2 c axis
softmax 1 8 c axis
split 1 2 c -
sqrt 1 0 c -
squeeze 1 2 c axis
strided_slice 4 2 c -
sum 4 3 c -
take 1 2 c axis
tanh 1 0 c -
transpose 4 2 c axes
trunc 3 0 c -
upsampling 1 2 c scale,layout,method
where 1 2 c -
yolo_region 5 8 c -
yolo_reorg 5 2 c -
zeros 4 4 c shape,dtype
zeros_like 4 0 c -
";

#[test]
fn all_115_operators() {
    let mut wrong = Vec::new();
    for line in TABLE.lines() {
        let [name, level, pattern, computed, params] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let Ok(op) = registry::find(name) else {
            wrong.push(format!("{name} is not there"));
            continue;
        };
        if level != "-" && op.support_level().to_string() != level {
            wrong.push(format!("{name}: level {}, expected {level}", op.support_level()));
        }
        let own = match op.cell("TOpPattern") {
            Some(Cell::Value(value)) => value.to::<i64>().unwrap().to_string(),
            _ => "-".to_owned(),
        };
        if pattern != "-" && own != pattern {
            wrong.push(format!("{name}: pattern {own}, expected {pattern}"));
        }
        if computed == "c" && op.cell("FTVMCompute").is_none() {
            wrong.push(format!("{name} is not computed"));
        }
        if params != "-" {
            let own: Vec<String> = op.params().iter().map(|(name, _)| name.as_str().to_owned()).collect();
            // Of results with another type than the inputs.
            let is_dtype = |param: &str| own.iter().any(|own| own == "out_dtype") && param == "dtype";
            let missing = params.split(',').filter(|param| !own.iter().any(|own| own == param) && !is_dtype(param));
            wrong.extend(missing.map(|param| format!("{name}: no attribute {param}, has {own:?}")));
        }
        if op.doc().is_empty() {
            wrong.push(format!("{name} has no description"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // `multibox_detection` is a name with a pattern there; `tvm_op` is the operator of compiled
    // graphs.
    assert_eq!(TABLE.lines().filter(|line| !line.starts_with("multibox_detection ")).count(), 115);
    assert!(registry::find("tvm_op").is_ok());
}
