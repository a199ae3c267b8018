//! Packs the weights of convolutions in the order in which the rules of the compiler read them: in
//! panels of output channels, or transformed for Winograd's algorithm.

use std::collections::HashMap;
use std::sync::Arc;

use kernpack::Tensor;
use kernpack_compiler::ir::F32;
use kernpack_compiler::rules::{FilterForm, Filters};

use crate::attrs::Attr;
use crate::constant::Constant;
use crate::error::Result;
use crate::graph::{Graph, Node, Ranges, ValueId};
use crate::op::conv::{ANY_EXTENTS, LAID_OUT};
use crate::tensors::{bytes_of, tensor_of};

/// The maximum number of bytes that transformed weights may add to a model. Further weights are
/// packed without a transform, or transformed in each call.
const GROWTH: usize = 64 << 20;

impl Graph {
    /// Packs known weights of convolutions, so that no call transposes or transforms them. For
    /// images of any extents they are only transformed: the direct convolution of such an image
    /// reads them as the model has them.
    ///
    /// # Errors
    /// Only errors of tensors.
    pub(crate) fn pack_conv_weights(&mut self) -> Result<()> {
        let others = self.read_otherwise(&["Conv"]);
        let mut growth = GROWTH;
        // Several convolutions may share weights, with images of different sizes.
        let mut done: HashMap<(ValueId, i64), Option<ValueId>> = HashMap::new();
        let mut reads = self.reads();
        for number in 0..self.nodes.len() {
            let node = &self.nodes[number];
            let Some(Some(id)) = node.inputs.get(1).copied() else { continue };
            if node.op.name() != "Conv" || others[id] {
                continue;
            }
            let Some((filters, known)) = self.filters_of(node, id)? else { continue };
            // The form for any extents is the same in all readings of the model.
            let is_any = node.attrs.get(ANY_EXTENTS).is_some();
            let form = if is_any { filters.form_of_any_extents() } else { filters.form() };
            let Some(mut form) = form else { continue };
            let more = |form: FilterForm| {
                let count: usize =
                    filters.shape(form).iter().map(|extent| usize::try_from(*extent).unwrap_or(0)).product();
                count * 4 - known.bytes().len()
            };
            if more(form) > growth {
                let Some(smaller) = filters.form_of_same_size().filter(|_| !is_any) else { continue };
                form = smaller;
            }
            let code = match form {
                FilterForm::Panels => 0,
                FilterForm::Tiles { result } => result,
            };
            let laid_out = match done.get(&(id, code)) {
                Some(laid_out) => *laid_out,
                None => {
                    let name = format!("{}.laid_out", self.values[id].name);
                    let floats = tensor_of(F32, &[i64::try_from(known.len()).unwrap_or(i64::MAX)], known.bytes())?;
                    let laid_out = match filters.laid_out(form, floats.view::<f32>()?.as_slice()?) {
                        Some(floats) => {
                            let tensor = Tensor::from_vec(floats, &filters.shape(form))?;
                            Some(self.add_known(&name, Constant::new(F32, tensor.shape(), bytes_of(&tensor)?)?))
                        }
                        None => None,
                    };
                    done.insert((id, code), laid_out);
                    growth -= more(form);
                    laid_out
                }
            };
            let extents = known.shape().iter().copied().chain([code]).collect();
            drop(known);
            let Some(laid_out) = laid_out else { continue };
            let node = &mut self.nodes[number];
            let mut attrs = (*node.attrs).clone();
            attrs.set(LAID_OUT, Attr::Ints(extents));
            node.attrs = Arc::new(attrs);
            self.replace_input(&mut reads, number, 1, laid_out);
        }
        Ok(())
    }

    /// Marks convolutions of images whose extents differ between readings of the model.
    pub(crate) fn mark_any_extents(&mut self, ranges: &mut Ranges) {
        let image = |graph: &Graph, node: usize| {
            let node = graph.nodes.get(node).filter(|node| node.op.name() == "Conv")?;
            let output = node.outputs.first().copied().flatten()?;
            graph.values[output].shape.get(2..).map(<[i64]>::to_vec)
        };
        let is_any = |node: &usize| ranges.others.iter().any(|(_, other)| image(other, *node) != image(self, *node));
        let found: Vec<usize> = (0..self.nodes.len()).filter(is_any).collect();
        for graph in [self].into_iter().chain(ranges.others.iter_mut().map(|(_, other)| other)) {
            for &node in &found {
                let node = &mut graph.nodes[node];
                let mut attrs = (*node.attrs).clone();
                attrs.set(ANY_EXTENTS, Attr::Int(1));
                node.attrs = Arc::new(attrs);
            }
        }
    }

    /// Returns the filters of a convolution with one group over two dimensions and known weights in
    /// `f32`, and the weights.
    fn filters_of(&self, node: &Node, id: ValueId) -> Result<Option<(Filters, Constant)>> {
        let (Some(known), Some(Some(output))) = (self.values[id].known.clone(), node.outputs.first()) else {
            return Ok(None);
        };
        let (&[channels, depth, rows, columns], &[_, _, y, x]) = (known.shape(), &self.values[*output].shape[..])
        else {
            return Ok(None);
        };
        if known.dtype() != F32 || self.values[*output].dtype != F32 || node.attrs.int("group", 1)? != 1 {
            return Ok(None);
        }
        let pair = |name: &str| -> Result<[i64; 2]> {
            Ok(node.attrs.ints(name)?.and_then(|values| values.try_into().ok()).unwrap_or([1, 1]))
        };
        let (strides, dilations) = (pair("strides")?, pair("dilations")?);
        Ok(Some((Filters { channels, depth, pixels: [y, x], window: [rows, columns], strides, dilations }, known)))
    }
}
