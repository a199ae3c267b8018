//! Models of texts for other languages: `kernpack.graph.text_model` reads one.

use kernpack::{Any, Array, Bytes, ObjRef, Object, Result, Shape, Str, Tensor, error, object_methods, packed_func};

use super::{TextModel, TextValue, Texts};
use crate::constant::Constant;
use crate::tensors::{bytes_of, tensor_of};

/// A tensor of texts: its shape, and the texts in row-major order.
#[derive(Object)]
#[object(key = "kernpack.graph.Texts")]
#[repr(C)]
pub struct TextTensor {
    /// The extents.
    pub shape: Shape,
    /// The texts, as many as the shape has elements.
    pub texts: Array<Str>,
}

/// A model of texts. It is immutable, so threads may share it.
#[derive(Object)]
#[object(key = "kernpack.graph.TextModel", structural = "singleton")]
#[repr(C)]
pub struct SharedTextModel {
    /// The names of the inputs of `run`, in order.
    pub inputs: Array<Str>,
    /// The names of the outputs of `run`, in order.
    pub outputs: Array<Str>,
    #[field(skip, default = TextModel { inputs: Vec::new(), outputs: Vec::new(), known: Vec::new(), steps: Vec::new() })]
    model: TextModel,
}

#[object_methods]
impl SharedTextModel {
    /// Computes the outputs for these inputs, each a `kernpack.graph.Texts` or a tensor.
    ///
    /// # Errors
    /// Returns an error for another number of inputs, and for inputs that do not match a node.
    pub fn run(&self, inputs: Array<Any>) -> Result<Array<Any>> {
        let inputs = inputs.iter().map(|input| value(&input)).collect::<Result<Vec<_>>>()?;
        self.model.run(&inputs)?.into_iter().map(any).collect()
    }
}

fn value(input: &Any) -> Result<TextValue> {
    if let Ok(texts) = input.to::<ObjRef<TextTensor>>() {
        let list = texts.texts.iter().map(|text| text.as_str().to_owned()).collect();
        return Ok(TextValue::Texts(Texts::new(&texts.shape, list)?));
    }
    match input.to::<Tensor>() {
        Ok(tensor) => Ok(TextValue::Numbers(Constant::new(tensor.dtype(), tensor.shape(), bytes_of(&tensor)?)?)),
        Err(_) => Err(error!(TypeError, "an input is a kernpack.graph.Texts or a tensor, got {}", input.type_name())),
    }
}

fn any(value: TextValue) -> Result<Any> {
    Ok(match value {
        TextValue::Texts(texts) => ObjRef::new(TextTensor {
            shape: Shape::new(texts.shape()),
            texts: texts.texts().iter().map(|text| Str::from(text.as_str())).collect(),
        })
        .into(),
        TextValue::Numbers(numbers) => tensor_of(numbers.dtype(), numbers.shape(), numbers.bytes())?.into(),
    })
}

/// Reads a model with texts as inputs or outputs: the path of a file, or its bytes.
#[packed_func(name = "kernpack.graph.text_model")]
fn text_model(source: Any) -> Result<ObjRef<SharedTextModel>> {
    let model = match (source.to::<Bytes>(), source.to::<String>()) {
        (Ok(bytes), _) => TextModel::read(bytes.as_ref())?,
        (_, Ok(path)) => {
            let bytes =
                std::fs::read(&path).map_err(|error| error!(RuntimeError, "{path}: cannot be read: {error}"))?;
            TextModel::read(&bytes).map_err(|error| error.within(&path))?
        }
        _ => return Err(error!(TypeError, "a model is the path of a file or its bytes, got {}", source.type_name())),
    };
    Ok(ObjRef::new(SharedTextModel {
        inputs: model.inputs().map(Str::from).collect(),
        outputs: model.outputs().map(Str::from).collect(),
        model,
    }))
}
