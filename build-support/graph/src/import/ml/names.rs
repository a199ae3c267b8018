//! Class names: texts that a model of numbers chooses from a list that it has.
//!
//! Such a text is its place in the list, as an `int64`. A node that moves texts moves these; other
//! nodes do not accept them.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::{Importer, Item, place};
use super::DOMAIN;
use super::site::Classes;
use crate::attrs::Attrs;
use crate::constant::{Constant, num_elements};
use crate::error::{GraphError, Result, require};
use crate::graph::{Columns, ValueId};
use crate::import::site::Site;
use crate::onnx::{self, Model, RawTensor, ValueType};
use crate::op;

/// The number of the type of texts in ONNX.
pub(in crate::import) const TEXT: i64 = 8;

/// Operators that move elements of their first input.
const MOVING: [&str; 8] =
    ["ArrayFeatureExtractor", "Cast", "Flatten", "Gather", "Identity", "Reshape", "Squeeze", "Unsqueeze"];

/// Returns true for a model whose texts are class names: it has operators of the domain, and its
/// inputs are numbers.
pub(in crate::import) fn has_class_names(model: &Model<'_>) -> bool {
    let is_text = |input: &onnx::ValueInfo| matches!(input.ty, ValueType::Tensor(TEXT, _));
    let learned = |node: &onnx::Node<'_>| node.domain == DOMAIN && node.op_type != "LabelEncoder";
    !model.graph.inputs.iter().any(is_text) && model.graph.nodes.iter().any(learned)
}

/// Returns the texts of a tensor: their places in a list of different ones, and the list.
///
/// # Errors
/// Returns an error for a text that is not UTF-8, and for another number of texts than the shape
/// has.
pub(in crate::import) fn of_tensor(tensor: &RawTensor<'_>) -> Result<(Constant, Arc<[String]>)> {
    let mut names: Vec<String> = Vec::new();
    let mut known: HashMap<&str, i64> = HashMap::new();
    let mut places = Vec::new();
    for bytes in &tensor.string_data {
        let text = core::str::from_utf8(bytes);
        let text = text.map_err(|error| GraphError::new(format!("a text is not UTF-8: {error}")))?;
        let new = super::site::int(names.len());
        let place = *known.entry(text).or_insert(new);
        if place == new {
            names.push(text.to_owned());
        }
        places.push(place);
    }
    let count = num_elements(&tensor.dims)?;
    require!(count == places.len(), "tensor '{}': {} texts for {:?}", tensor.name, places.len(), tensor.dims);
    Ok((Constant::of_ints(&places).reshaped(&tensor.dims)?, names.into()))
}

/// Returns a label: a number, or the place of a name.
pub(super) fn label(id: ValueId, classes: &Classes) -> Item {
    match classes {
        Classes::Ints(_) => Item::Tensor(id),
        Classes::Texts(names) => Item::Names(id, names.clone().into()),
    }
}

impl<'a> Importer<'_, 'a> {
    /// Imports a node with class names among its inputs.
    pub(in crate::import) fn with_names(
        &mut self,
        node: &onnx::Node<'a>,
        inputs: &[Option<Item>],
        attrs: &Attrs,
        version: i64,
    ) -> Result<Vec<Option<Item>>> {
        let name = node.outputs.first().map_or("", String::as_str);
        let refused = || {
            let what = "class names are texts, and only nodes that move them are supported: export the model with integer labels";
            GraphError::new(what).within(&place(node))
        };
        let Some(Some(Item::Names(id, names))) = inputs.first() else { return Err(refused()) };
        let mut ids = vec![Some(*id)];
        for item in &inputs[1..] {
            match item {
                None => ids.push(None),
                Some(Item::Tensor(id)) => ids.push(Some(*id)),
                Some(_) => return Err(refused()),
            }
        }
        match node.op_type.as_str() {
            "LabelEncoder" => return self.encoded_names(name, *id, names, attrs),
            "Cast" if attrs.int("to", 0)? != TEXT => return Err(refused()),
            "Cast" => return Ok(vec![Some(Item::Names(*id, Arc::clone(names)))]),
            op if MOVING.contains(&op) => {}
            _ => return Err(refused()),
        }
        let Some(operator) = op::find(&node.op_type) else { return Err(refused()) };
        let made = self.add_sized(operator.into(), name, Arc::new(attrs.clone()), version, &ids, &node.outputs)?;
        Ok(made.into_iter().map(|id| id.map(|id| Item::Names(id, Arc::clone(names)))).collect())
    }

    /// `LabelEncoder` from class names to numbers or to other names.
    fn encoded_names(
        &mut self,
        name: &str,
        id: ValueId,
        names: &Arc<[String]>,
        attrs: &Attrs,
    ) -> Result<Vec<Option<Item>>> {
        let mut site = Site::new(&mut self.graph, name, attrs, &[], &[]);
        let keys = site.attrs.texts("keys_strings")?;
        require!(!keys.is_empty(), "attribute `keys_strings` is missing, and the input has class names");
        // The first one of equal keys counts.
        let known: HashMap<&str, usize> =
            keys.iter().enumerate().rev().map(|(place, key)| (key.as_str(), place)).collect();
        let of = |name: &String| known.get(name.as_str()).copied();
        let texts = site.attrs.texts("values_strings")?;
        if !texts.is_empty() {
            require!(texts.len() == keys.len(), "{} keys and {} values", keys.len(), texts.len());
            let other = attrs.text("default_string", "_Unused")?.to_owned();
            let names: Vec<String> =
                names.iter().map(|name| of(name).map_or_else(|| other.clone(), |place| texts[place].clone())).collect();
            return Ok(vec![Some(Item::Names(id, names.into()))]);
        }
        let ints = attrs.ints("values_int64s")?.unwrap_or_default();
        let floats = site.attrs.floats("values_floats")?;
        let table = if ints.is_empty() {
            require!(floats.len() == keys.len(), "{} keys and {} values", keys.len(), floats.len());
            let other = attrs.float32("default_float", -0.0)?;
            Constant::of_floats(
                &names.iter().map(|name| of(name).map_or(other, |place| floats[place])).collect::<Vec<_>>(),
            )
        } else {
            require!(ints.len() == keys.len(), "{} keys and {} values", keys.len(), ints.len());
            let other = attrs.int("default_int64", -1)?;
            Constant::of_ints(&names.iter().map(|name| of(name).map_or(other, |place| ints[place])).collect::<Vec<_>>())
        };
        let table = site.emitter.graph.add_known(name, table);
        Ok(vec![Some(Item::Tensor(site.binary("Gather", table, id)?))])
    }

    /// Imports `ZipMap`: the scores of rows, with the labels of their columns.
    pub(super) fn zip_map(&mut self, name: &str, inputs: &[Option<ValueId>], attrs: &Attrs) -> Result<Item> {
        let mut site = Site::new(&mut self.graph, name, attrs, inputs, &[]);
        let classes = site.classes("classlabels_int64s")?;
        let x = site.rows()?;
        let (count, shape) = (super::site::int(classes.len()), site.shape(x).to_vec());
        require!(shape[1] == count, "there are {count} class labels, and scores {shape:?}");
        let scores = site.unary("Identity", x)?;
        let columns = match classes {
            Classes::Ints(labels) => Columns::Labels(site.emitter.ints(&labels)),
            Classes::Texts(names) => Columns::Names(names),
        };
        self.graph.columns.insert(scores, columns);
        Ok(Item::Tensor(scores))
    }

    /// Adds an output of class names, as their places in the list of names.
    pub(in crate::import) fn output_names(
        &mut self,
        name: String,
        id: ValueId,
        names: &[String],
        version: i64,
    ) -> Result<()> {
        self.name_output(&name, names, "each element is the place of a text");
        self.output(name, id, version)
    }

    /// Adds the labels of the columns of an output that was a list of maps.
    pub(in crate::import) fn output_columns(&mut self, name: &str, id: ValueId, version: i64) -> Result<()> {
        match self.graph.columns.get(&id).cloned() {
            None => Ok(()),
            Some(Columns::Labels(labels)) => self.output(format!("{name}_keys"), labels, version),
            Some(Columns::Names(names)) => {
                self.name_output(name, &names, "its columns are those of the texts");
                Ok(())
            }
        }
    }

    fn name_output(&mut self, name: &str, names: &[String], what: &str) {
        self.graph.labels.insert(name.to_owned(), names.to_vec());
        let shown = names[..names.len().min(8)].join("', '");
        let more = if names.len() > 8 { " and others" } else { "" };
        self.graph.warnings.push(format!(
            "output '{name}' has texts in the model, and numbers here: {what} in the list '{shown}'{more}"
        ));
    }
}
