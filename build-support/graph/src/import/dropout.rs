//! `Dropout` in training, with a seed: the kept elements are determined at build time. The
//! generator is that of ONNX's own evaluator.

use super::Importer;
use super::emit::Emitter;
use super::item::Item;
use crate::attrs::{Attr, Attrs};
use crate::constant::{Constant, num_elements};
use crate::error::{Result, fail, require};
use crate::graph::ValueId;
use crate::numpy_random::NumpyRandom;
use crate::op;
use kernpack_compiler::ir::{BF16, F16, F32, F64};

/// The maximum number of elements: each needs a random number in the library.
const MOST: usize = 1 << 22;

/// The numbers of float types in ONNX.
const FLOATS: [(kernpack::DataType, i64); 4] = [(F32, 1), (F16, 10), (F64, 11), (BF16, 16)];

impl Importer<'_, '_> {
    /// Returns the result and the mask of a node that drops elements, or `None` if it keeps all of
    /// them or is not in training mode.
    pub(super) fn training_dropout(
        &mut self,
        name: &str,
        inputs: &[Option<ValueId>],
        attrs: &Attrs,
    ) -> Result<Option<Vec<Option<Item>>>> {
        op::beside::check("Dropout", attrs, inputs)?;
        let input = |index: usize| inputs.get(index).copied().flatten();
        let (Some(x), Some(training)) = (input(0), input(2)) else { return Ok(None) };
        let mut emitter = Emitter { graph: &mut self.graph, name };
        let known_ratio = match input(1) {
            Some(ratio) => match &emitter.graph.values[ratio].known {
                Some(known) => known.to_floats()?.first().copied(),
                None => None,
            },
            None => Some(0.5),
        };
        if emitter.known_bool(training)? != Some(true) || known_ratio == Some(0.0) {
            return Ok(None);
        }
        let has_old = input(1).is_none() && attrs.get("ratio").is_some();
        require!(!has_old, "attribute `ratio` is of versions before 12: expected the ratio as input 1");
        let Some(seed) = attrs.find_int("seed")? else {
            fail!("training without attribute `seed` is random, which is not supported")
        };
        let Ok(seed) = u32::try_from(seed) else { fail!("attribute `seed` is {seed}, and has to be 0 to 2^32 - 1") };
        let (dtype, shape) = (emitter.graph.values[x].dtype, emitter.graph.values[x].shape.clone());
        let Some((_, code)) = FLOATS.iter().find(|(float, _)| *float == dtype) else {
            fail!("elements of {dtype} are not dropped")
        };
        let count = num_elements(&shape)?;
        require!(count <= MOST, "training drops elements of {count}, at most {MOST} are supported");
        let mut random = NumpyRandom::new(seed);
        let bytes: Vec<u8> = (0..count).flat_map(|_| random.uniform().to_le_bytes()).collect();
        let random = emitter.graph.add_known(name, Constant::new(F64, &shape, bytes)?);
        let double = |emitter: &mut Emitter<'_>, value: f32| {
            let number = Constant::of_floats(&[value]).reshaped(&[])?;
            let id = emitter.graph.add_known(name, number);
            emitter.node("Cast", &[("to", Attr::Int(11))], &[id])
        };
        let ratio = match input(1) {
            Some(ratio) => emitter.node("Cast", &[("to", Attr::Int(11))], &[ratio])?,
            None => double(&mut emitter, 0.5)?,
        };
        let (one, zero) = (double(&mut emitter, 1.0)?, double(&mut emitter, 0.0)?);
        let mask = emitter.node("GreaterOrEqual", &[], &[random, ratio])?;
        let kept = emitter.node("Sub", &[], &[one, ratio])?;
        let scale = emitter.node("Div", &[], &[one, kept])?;
        let own_type = [("to", Attr::Int(*code))];
        let (scale, zero) = (emitter.node("Cast", &own_type, &[scale])?, emitter.node("Cast", &own_type, &[zero])?);
        let scaled = emitter.node("Mul", &[], &[x, scale])?;
        let result = emitter.node("Where", &[], &[mask, scaled, zero])?;
        Ok(Some(vec![Some(Item::Tensor(result)), Some(Item::Tensor(mask))]))
    }
}
