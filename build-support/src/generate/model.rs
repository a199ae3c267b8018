//! Generates a Rust module for a model: its outputs by name, memory that is allocated once, and
//! functions that return new outputs.

use std::fmt::Write as _;

use super::docs;
use super::names::{Identifiers, Names};

/// A model as the generated code sees it.
#[derive(Clone, Debug)]
pub(crate) struct ModelItems {
    /// The name of its function.
    pub(crate) name: String,
    /// The file, as the user named it.
    pub(crate) source: String,
    pub(crate) inputs: Vec<ModelArgument>,
    pub(crate) outputs: Vec<ModelArgument>,
    /// The values that a state keeps.
    pub(crate) kept: Vec<Kept>,
    /// The dynamic dimensions.
    pub(crate) dims: Vec<OpenDimension>,
    /// Bytes of temporary memory for a call, on any CPU level.
    pub(crate) state: u64,
    /// The number of kernels that run, one after the other.
    pub(crate) steps: usize,
    /// The description of the model, as JSON.
    pub(crate) info: String,
    /// The weights, if they are in a file.
    pub(crate) weights_file: Option<FileWeights>,
}

/// A value that a state keeps from one call to the next one.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// The index of the input.
    pub(crate) input: usize,
    /// The index of the output that replaces it in the next call.
    pub(crate) output: usize,
    /// If its extents are those of each call: the axis that grows from call to call, if there is
    /// one.
    pub(crate) open: Option<Option<usize>>,
}

/// Weights in a file beside the library.
#[derive(Clone, Debug)]
pub(crate) struct FileWeights {
    /// The digest of the code, in hexadecimal.
    pub(crate) code: String,
    pub(crate) levels: Vec<WeightsLevel>,
}

/// The weights for a CPU level.
#[derive(Clone, Debug)]
pub(crate) struct WeightsLevel {
    /// The symbol of the variable with their address.
    pub(crate) symbol: String,
    pub(crate) bytes: u64,
}

/// An input or output tensor of a model.
#[derive(Clone, Debug)]
pub(crate) struct ModelArgument {
    pub(crate) name: String,
    /// The element type: the code of DLPack, the number of bits, and the name.
    pub(crate) dtype: (u8, u8, String),
    pub(crate) shape: Vec<i64>,
    /// The extents as text, with the names of dynamic dimensions.
    pub(crate) texts: Vec<String>,
    /// The axes whose extents may differ from those of `shape`.
    pub(crate) open: Vec<OpenAxis>,
}

/// An axis whose extent depends on dynamic dimensions.
#[derive(Clone, Debug)]
pub(crate) struct OpenAxis {
    pub(crate) axis: usize,
    /// The extent for each of the extents of `chosen`, or a single one if it is the same for all.
    pub(crate) by_size: Vec<i64>,
    /// The index of the dimension whose extent multiplies this one.
    pub(crate) cut: Option<usize>,
    /// The index of the dimension with a list of extents that it depends on, if there is one.
    pub(crate) chosen: Option<usize>,
    /// The extent as a Rust expression, if it follows from dimensions with ranges, which are `{0}`,
    /// `{1}` and so on.
    pub(crate) formula: Option<String>,
}

/// A dynamic dimension.
#[derive(Clone, Debug)]
pub(crate) struct OpenDimension {
    /// Its name in the model.
    pub(crate) name: String,
    /// The allowed extents, as text for people: `1 to 64`, or `32, 64 or 128`.
    pub(crate) extents: String,
    /// The least extent.
    pub(crate) least: i64,
    /// The largest extent.
    pub(crate) most: i64,
    /// The number that divides all extents.
    pub(crate) step: i64,
    /// All extents, the largest first, if only a list of extents is allowed.
    pub(crate) one_of: Vec<i64>,
    /// The index of the input that has the dimension, and the axis.
    pub(crate) at: (usize, usize),
}

impl OpenDimension {
    /// Returns a Rust condition that is true if an extent is allowed.
    fn fits(&self, extent: &str) -> String {
        if self.one_of.is_empty() {
            let is_inside = format!("({}..={}).contains(&{extent})", self.least, self.most);
            return match self.step {
                1 => is_inside,
                step => format!("({is_inside} && {extent} % {step} == 0)"),
            };
        }
        format!("{:?}.contains(&{extent})", self.one_of)
    }
}

impl ModelArgument {
    fn shown(&self) -> String {
        format!("{}{}", self.dtype.2, self.extents())
    }

    /// Formats the extents: `[2, 4]`, or `[batch, 4]`.
    pub(crate) fn extents(&self) -> String {
        format!("[{}]", self.texts.join(", "))
    }

    /// Returns the extents as a Rust expression, in which the dynamic dimensions have these names.
    fn shape_in_rust(&self, dims: &[OpenDimension], names: &[String]) -> String {
        let mut extents: Vec<String> = self.shape.iter().map(i64::to_string).collect();
        for OpenAxis { axis, by_size, cut, chosen, formula } in &self.open {
            if let Some(formula) = formula {
                let with_names =
                    |text: String, (number, name): (usize, &String)| text.replace(&format!("{{{number}}}"), name);
                extents[*axis] = names.iter().enumerate().fold(formula.clone(), with_names);
                continue;
            }
            let size = chosen.map_or(by_size[0].to_string(), |number| {
                let (sizes, name) = (&dims[number].one_of, &names[number]);
                if sizes == by_size {
                    return name.clone();
                }
                let pairs = sizes.iter().zip(by_size).map(|(size, extent)| format!("{size} => {extent}"));
                format!("match {name} {{ {}, _ => 0 }}", pairs.collect::<Vec<_>>().join(", "))
            });
            extents[*axis] = match cut.map(|number| &names[number]) {
                None => size,
                Some(name) if size == "1" => name.clone(),
                Some(name) => format!("{name} * {size}"),
            };
        }
        format!("&[{}]", extents.join(", "))
    }

    /// Returns a Rust expression that allocates zeroed memory for the tensor.
    fn zeros(&self) -> String {
        let (code, bits, _) = &self.dtype;
        let bytes = self.shape.iter().product::<i64>() * i64::from(bits.div_ceil(8));
        format!("Tensor::zeros::<u8>(&[{bytes}])?.view_as(&{:?}, DataType::scalar({code}, {bits}), 0)?", self.shape)
    }
}

/// Writes the module of a model. Its function has the identifiers `names`, and `steps` are those of
/// the function that runs a part of it.
pub(super) fn write(out: &mut String, names: &Identifiers, steps: &Identifiers, model: &ModelItems) {
    let (mut params, mut fields) = (Names::default(), Names::default());
    let outputs_name = params.take("outputs").item;
    let inputs: Vec<String> = model.inputs.iter().map(|input| params.take(&input.name).item).collect();
    let outputs: Vec<String> = model.outputs.iter().map(|output| fields.take(&output.name).item).collect();
    // Values that a state keeps are not arguments.
    let kept_input = |index: usize| model.kept.iter().position(|kept| kept.input == index);
    let kept_output = |index: usize| model.kept.iter().position(|kept| kept.output == index);
    let own_inputs: Vec<&String> =
        (0..inputs.len()).filter(|index| kept_input(*index).is_none()).map(|index| &inputs[index]).collect();
    let own_outputs: Vec<(&ModelArgument, &String)> = model
        .outputs
        .iter()
        .zip(&outputs)
        .enumerate()
        .filter(|(index, _)| kept_output(*index).is_none())
        .map(|(_, pair)| pair)
        .collect();
    let heads: Vec<String> = own_inputs.iter().map(|name| format!("{name}: &Tensor")).collect();
    let head = |more: &[&str]| {
        let all: Vec<&str> = heads.iter().map(String::as_str).chain(more.iter().copied()).collect();
        all.join(", ")
    };
    let written: Vec<String> = outputs.iter().map(|name| format!("&{outputs_name}.{name}")).collect();
    let values = |before: &[&str]| {
        let own = before.iter().copied().chain(inputs.iter().map(String::as_str));
        own.chain(written.iter().map(String::as_str)).collect::<Vec<_>>().join(", ")
    };
    let arguments = model.inputs.iter().zip(&inputs).map(|(input, name)| format!("`{name}`: `{}`", input.shown()));
    let takes = arguments.collect::<Vec<_>>().join(", ");
    let takes = if takes.is_empty() { "It takes nothing.".to_owned() } else { format!("It takes {takes}.") };
    let open = model.dims.iter().map(|dim| format!(" `{}` is {}.", docs::quoted(&dim.name), dim.extents));
    let takes = open.fold(takes, |takes, open| takes + &open);
    let mut names_of_dims = Names::default();
    let dims: Vec<String> =
        model.dims.iter().map(|dim| names_of_dims.take(&dim.name.to_ascii_lowercase()).item).collect();
    // The expressions for the dimensions, for Rust and for packed functions. The function itself
    // rejects a tensor without the axis.
    let told = |of: fn(&str, usize) -> String| -> Vec<String> {
        let one = |dim: &OpenDimension| match kept_input(dim.at.0) {
            Some(number) => format!("self.kept_{number}.extent({})", dim.at.1),
            None => format!("{}.unwrap_or({})", of(&inputs[dim.at.0], dim.at.1), dim.least),
        };
        model.dims.iter().map(one).collect()
    };
    // A dimension that only kept values have is an argument of no output that does not depend on
    // it.
    let is_told = |number: usize, dim: &OpenDimension| {
        let place = format!("{{{number}}}");
        let is_in = |open: &OpenAxis| open.formula.as_ref().is_some_and(|formula| formula.contains(&place));
        kept_input(dim.at.0).is_none() || own_outputs.iter().any(|(output, _)| output.open.iter().any(is_in))
    };
    let is_told: Vec<bool> = model.dims.iter().enumerate().map(|(number, dim)| is_told(number, dim)).collect();
    let needed = |all: Vec<String>| -> String {
        let needed = all.into_iter().zip(&is_told).filter(|(_, is_told)| **is_told).map(|(text, _)| text);
        needed.collect::<Vec<_>>().join(", ")
    };
    let by_tensor = needed(told(|name, axis| format!("{name}.shape().get({axis}).copied()")));
    let by_view = needed(told(|name, axis| format!("__k::extent_of(&{name}, {axis})")));

    let about = format!("The model `{}`, from {}. {takes}", docs::quoted(&model.name), model.source);
    docs::comment(out, 4, &about);
    let _ = writeln!(out, "    #[rustfmt::skip]\n    pub mod {} {{", names.item);
    let mut body = String::from(
        "use super::super::__kernpack::__private_v0_1 as __k;
use super::super::__kernpack::{AnyView, Array, DataType, Device, Result, Tensor, packed_func};

/// A description of the model as JSON: arguments, memory, and kernels with their work.
/// `cargo kernpack inspect --load` shows it.
",
    );
    let _ = writeln!(body, "pub const INFO: &str = {:?};\n", model.info);
    body.push_str("/// The outputs of the model.\n#[derive(Clone, Debug)]\npub struct Outputs {\n");
    for (output, name) in &own_outputs {
        let _ = writeln!(body, "    /// `{}`.\n    pub {name}: Tensor,", output.shown());
    }
    let shown_dims =
        || model.dims.iter().zip(&dims).zip(&is_told).filter(|(_, is_told)| **is_told).map(|(pair, _)| pair);
    let open = shown_dims().map(|(dim, name)| {
        let name = name.trim_start_matches("r#");
        format!("; `{name}` is the extent of `{}`, {}", docs::quoted(&dim.name), dim.extents)
    });
    let open: String = open.collect();
    let other = if shown_dims().next().is_none() { "" } else { "ValueError for another extent; " };
    let parameters = shown_dims().map(|(_, name)| format!("{name}: i64")).collect::<Vec<_>>().join(", ");
    let _ = write!(
        body,
        "}}

impl Outputs {{
    /// Allocates memory for the outputs, with unspecified content{open}.
    ///
    /// # Errors
    /// {other}MemoryError.
    pub fn new({parameters}) -> Result<Self> {{
"
    );
    for (dim, name) in shown_dims() {
        // The name of the dimension is text of the model.
        let shown = dim.name.replace('{', "{{").replace('}', "}}");
        let text = format!("{}: the dimension '{shown}' is {{}}, and has to be {}", model.name, dim.extents);
        let _ = write!(
            body,
            "        if !{} {{
            return Err(super::super::__kernpack::error!(ValueError, {text:?}, {name}));
        }}
",
            dim.fits(name)
        );
    }
    body.push_str("        Ok(Self {\n");
    for (output, name) in &own_outputs {
        let ((code, bits, _), shape) = (&output.dtype, output.shape_in_rust(&model.dims, &dims));
        let _ = writeln!(
            body,
            "            {name}: Tensor::empty(DataType::scalar({code}, {bits}), {shape}, Device::CPU)?,"
        );
    }
    let of_kept = kept(model, &dims, &told(|name, axis| format!("{name}.shape().get({axis}).copied()")));
    let KeptText { fields: fields_kept, made: made_kept, reset, begin: begin_kept, end: swap_kept, extents } = of_kept;
    let kept_arg = |number: usize, is_after: bool| match (&model.kept[number].open, is_after) {
        (None, false) => kernel_arg(&format!("&self.kept_{number}[0]")),
        (None, true) => kernel_arg(&format!("&self.kept_{number}[1]")),
        (Some(_), false) => format!("self.kept_{number}.before()"),
        (Some(_), true) => format!("self.kept_{number}.after()"),
    };
    let for_state = |index: usize, name: &String| match kept_input(index) {
        Some(number) => kept_arg(number, false),
        None => kernel_arg(name),
    };
    let of_state = |index: usize, name: &String| match kept_output(index) {
        Some(number) => kept_arg(number, true),
        None => kernel_arg(&format!("&{outputs_name}.{name}")),
    };
    let mut part: Vec<String> = ["&self.memory", "&0_i64", &format!("&{}_i64", model.steps)].map(kernel_arg).into();
    part.extend(inputs.iter().enumerate().map(|(index, name)| for_state(index, name)));
    // The arguments whose types and shapes the caller has chosen, in the same places.
    let mut explained: Vec<String> = ["&self.memory", "&0_i64", "&0_i64"].map(kernel_arg).into();
    explained.extend(inputs.iter().enumerate().map(|(index, name)| for_state(index, name)));
    part.extend(outputs.iter().enumerate().map(|(index, name)| of_state(index, name)));
    let _ = write!(
        body,
        "        }})
    }}
}}

/// The temporary memory of calls, allocated once. Calls with different states may run at the same
/// time, on any threads.
#[derive(Debug)]
pub struct State {{
    memory: Tensor,
    canceller: Canceller,{fields_kept}
}}

pub use __k::Canceller;

impl State {{
    /// Allocates the memory: {state} bytes.
    ///
    /// # Errors
    /// MemoryError.
    pub fn new() -> Result<Self> {{
        let memory = Tensor::empty(DataType::scalar(1, 8), &[{state}], Device::CPU)?;
        Ok(Self {{ canceller: Canceller::new(&memory), memory{made_kept} }})
    }}

    /// Returns a handle that ends a run from another thread: between two kernels, with an error of
    /// the kind `CancelledError`.
    pub fn canceller(&self) -> Canceller {{
        self.canceller.clone()
    }}
{reset}{extents}
    /// Computes the outputs in their memory.
    ///
    /// Does not allocate memory or take locks, except in the first call of a thread for data that
    /// its kernels keep.
    ///
    /// # Errors
    /// Inputs of another type or shape.
    pub fn run_into(&mut self, {into}) -> Result<()> {{
{begin_kept}        let __ended: Result<()> = __k::call_kernel(&super::{steps}, [{part}]);
        __ended.map_err(|error| self.canceller.ended(__k::explained(error, &[{explained}])))?;{swap_kept}
        Ok(())
    }}

    /// Computes outputs in new memory.
    ///
    /// # Errors
    /// Inputs of another type or shape; MemoryError.
    pub fn run(&mut self, {inputs}) -> Result<Outputs> {{
        let mut {outputs_name} = Outputs::new({by_tensor})?;
        self.run_into({run})?;
        Ok({outputs_name})
    }}
}}
",
        state = model.state,
        into = head(&[&format!("{outputs_name}: &mut Outputs")]),
        inputs = head(&[]),
        steps = steps.item,
        explained = explained.join(", "),
        part = part.join(", "),
        run = own_inputs
            .iter()
            .map(|name| name.as_str())
            .chain([format!("&mut {outputs_name}").as_str()])
            .collect::<Vec<_>>()
            .join(", "),
    );
    // A model that keeps values between calls has no `run` without a state.
    if model.kept.is_empty() {
        let _ = write!(
            body,
            "
/// Computes outputs in new memory.
///
/// # Errors
/// Inputs of another type or shape; MemoryError.
pub fn run({}) -> Result<Outputs> {{
    let {outputs_name} = Outputs::new({by_tensor})?;
    super::typed::{}({}).map_err(|error| __k::explained(error, &[{}]))?;
    Ok({outputs_name})
}}
",
            head(&[]),
            names.item,
            values(&[]),
            inputs.iter().map(|name| kernel_arg(name)).collect::<Vec<_>>().join(", "),
        );
    }
    // The functions for other languages.
    let views: Vec<String> = inputs.iter().map(|name| format!("{name}: AnyView<'_>")).collect();
    let given: Vec<String> = inputs.iter().map(|name| kernel_arg(&format!("&{name}"))).collect();
    let args = given.iter().cloned().chain(written.iter().map(|name| kernel_arg(name)));
    let (result, value) = match &outputs[..] {
        [one] => ("Tensor", format!("{outputs_name}.{one}")),
        all => {
            let all: Vec<String> = all.iter().map(|name| format!("{outputs_name}.{name}")).collect();
            ("Array<Tensor>", format!("[{}].into_iter().collect()", all.join(", ")))
        }
    };
    if model.kept.is_empty() {
        let _ = write!(
            body,
            "
/// The outputs of the model `{name}` in new memory: a tensor, or an array of them. {takes}
#[packed_func(name = \"{name}_run\", crate = super::super::__kernpack)]
fn packed_run({views}) -> Result<{result}> {{
    let {outputs_name} = Outputs::new({by_view})?;
    super::{item}.call_as::<()>([{args}]).map_err(|error| __k::explained(error, &[{given}]))?;
    Ok({value})
}}
",
            name = model.name,
            views = views.join(", "),
            item = names.item,
            args = args.collect::<Vec<_>>().join(", "),
            given = given.join(", "),
        );
    }
    let _ = write!(
        body,
        "
/// Returns a description of the model `{name}` as JSON: arguments, memory, and kernels with their
/// work.
#[packed_func(name = \"{name}_info\", crate = super::super::__kernpack)]
fn packed_info() -> &'static str {{
    INFO
}}
",
        name = model.name,
    );
    if let Some(file) = &model.weights_file {
        weights_functions(&mut body, &model.name, file);
    }
    for line in body.lines() {
        let _ = writeln!(out, "{}", format!("        {line}").trim_end());
    }
    out.push_str("    }\n");
}

/// The parts of the code of a state that are about the values that it keeps.
#[derive(Default)]
struct KeptText {
    fields: String,
    made: String,
    /// The function that forgets them.
    reset: String,
    /// The statements before a call.
    begin: String,
    /// The statements behind it.
    end: String,
    /// The functions that tell extents that only they have.
    extents: String,
}

/// Writes these parts. `told` are the expressions for the extents of the dimensions.
fn kept(model: &ModelItems, dims: &[String], told: &[String]) -> KeptText {
    let mut text = KeptText::default();
    if model.kept.is_empty() {
        return text;
    }
    let places: Vec<String> = (0..told.len()).map(|number| format!("__extents[{number}]")).collect();
    if model.kept.iter().any(|kept| kept.open.is_some()) {
        let _ = writeln!(text.begin, "        let __extents: [i64; {}] = [{}];", told.len(), told.join(", "));
    }
    let mut resets = String::new();
    for (number, Kept { input, output, open }) in model.kept.iter().enumerate() {
        let (before, after) = (&model.inputs[*input], &model.outputs[*output]);
        let about = format!("`{}`, and `{}`, which takes its place for the next call", before.name, after.name);
        if let Some(axis) = open {
            let (code, bits, _) = before.dtype;
            let _ = write!(text.fields, "\n    /// {about}.\n    kept_{number}: __k::Cache,");
            let _ = write!(
                text.made,
                ", kept_{number}: __k::Cache::new([{:?}, {:?}], DataType::scalar({code}, {bits}), {axis:?})?",
                model.name, before.name
            );
            let [first, second] = [before, after].map(|argument| argument.shape_in_rust(&model.dims, &places));
            let _ = writeln!(text.begin, "        self.kept_{number}.begin({first}, {second})?;");
            let _ = write!(text.end, "\n        self.kept_{number}.advance();");
            let _ = write!(resets, "\n        self.kept_{number}.reset();");
            continue;
        }
        let _ = write!(text.fields, "\n    /// {about}.\n    kept_{number}: [Tensor; 2],");
        let _ = write!(text.made, ", kept_{number}: [{}, {}]", before.zeros(), after.zeros());
        let _ = write!(resets, "\n        self.kept_{number} = [{}, {}];", before.zeros(), after.zeros());
        let _ = write!(text.end, "\n        self.kept_{number}.swap(0, 1);");
    }
    let _ = write!(
        text.reset,
        "
    /// Resets the values that are kept between calls: to zeros, or to nothing if they grow.
    ///
    /// # Errors
    /// MemoryError.
    pub fn reset(&mut self) -> Result<()> {{{resets}
        Ok(())
    }}
"
    );
    let mut names = Names::default();
    for own in ["new", "canceller", "reset", "run_into", "run"] {
        names.take(own);
    }
    for ((dim, name), told) in model.dims.iter().zip(dims).zip(told) {
        if !model.kept.iter().any(|kept| kept.input == dim.at.0) {
            continue;
        }
        let _ = write!(
            text.extents,
            "
    /// Returns the extent of `{}` for the next call: 0 before the first one.
    pub fn {}(&self) -> i64 {{
        {told}
    }}
",
            docs::quoted(&dim.name),
            names.take(name.trim_start_matches("r#")).item,
        );
    }
    text
}

/// Formats a Rust expression that converts a reference to an argument of a kernel.
fn kernel_arg(value: &str) -> String {
    format!("__k::kernel_arg({value})")
}

/// Writes the functions that load weights from a file.
fn weights_functions(body: &mut String, name: &str, file: &FileWeights) {
    let levels =
        file.levels.iter().map(|WeightsLevel { symbol, bytes }| format!("({bytes}, __k::weights_slot!({symbol:?}))"));
    let levels = levels.collect::<Vec<_>>().join(", ");
    let _ = write!(
        body,
        "
/// The file with the weights that the build has written, on the machine of the build.
pub const WEIGHTS_FILE: &str = concat!(env!(\"OUT_DIR\"), \"/kernpack/{name}.weights\");

/// The digest of the code. A file of weights for other code is an error.
pub const CODE_DIGEST: &str = {code:?};

static WEIGHTS_LEVELS: [(u64, __k::WeightsSlot); {count}] = [{levels}];
static WEIGHTS: __k::ModelWeights = __k::ModelWeights::new({name:?}, 0x{code}, &WEIGHTS_LEVELS);

/// Loads the weights: the path of a file, which is mapped, or its bytes. Call it before the first
/// call of the model. They stay in memory until the process ends.
///
/// # Errors
/// A file that cannot be read, is damaged, or belongs to another model; other weights than those
/// that are loaded already.
pub fn weights(source: impl Into<__k::WeightsSource>) -> Result<()> {{
    WEIGHTS.load(source.into())
}}

/// Loads the weights of the model `{name}`: the path of a file, which is mapped, or its bytes.
#[packed_func(name = \"{name}_weights\", crate = super::super::__kernpack)]
fn packed_weights(source: super::super::__kernpack::Any) -> Result<()> {{
    weights(__k::WeightsSource::of_argument({name:?}, &source)?)
}}
",
        code = file.code,
        count = file.levels.len(),
    );
}
