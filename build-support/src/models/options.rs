//! A model of a library.

use std::path::PathBuf;

use kernpack_compiler::ir::DataType;
use kernpack_graph::{Constant, CustomOperator, GraphError, LowerOptions, ModelOptions, Threads};

/// A model of a library, and what the build script says of it. Made by `Library::model_with`.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) options: ModelOptions,
    pub(crate) constants: Vec<(String, Result<Constant, GraphError>)>,
    pub(crate) fuse: bool,
    pub(crate) level: u8,
    /// Inputs that states keep, and the outputs that take their place.
    pub(crate) kept: Vec<(String, String)>,
    pub(crate) threads: Threads,
}

impl Model {
    pub(crate) fn new(path: PathBuf) -> Self {
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let name = kernpack_graph::lower::identifier(&stem);
        Self {
            path,
            name,
            options: ModelOptions::default(),
            constants: Vec::new(),
            fuse: true,
            level: 3,
            kept: Vec::new(),
            threads: Threads::default(),
        }
    }

    /// The name of the function; without it, that of the file.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// The extent of a dimension that the model names: `.dim("batch", 1)`.
    #[must_use]
    pub fn dim(mut self, name: &str, extent: i64) -> Self {
        self.options.dims.insert(name.to_owned(), extent);
        self
    }

    /// A dimension that each call tells, and its largest extent: `.dim_up_to("batch", 64)`. The function takes any extent from 1 on; what the model gives for one index of it
    /// may depend on the inputs at that index alone, as it does for a batch. A model of which this is not known is an error of the build, with the node.
    #[must_use]
    pub fn dim_up_to(mut self, name: &str, most: i64) -> Self {
        self.options.up_to.insert(name.to_owned(), most);
        self
    }

    /// A dimension that each call tells, which has one of these extents: `.dim_in("sequence", [32, 64, 128])`. The model is compiled for each of them, and the function runs the
    /// kernels for that of the call. Weights are in the library once, if the kernels of all extents want them in the same order.
    #[must_use]
    pub fn dim_in(mut self, name: &str, extents: impl Into<Vec<i64>>) -> Self {
        self.options.dims_in.insert(name.to_owned(), extents.into());
        self
    }

    /// The shape of an input.
    #[must_use]
    pub fn input(mut self, name: &str, shape: impl Into<Vec<i64>>) -> Self {
        self.options.inputs.insert(name.to_owned(), shape.into());
        self
    }

    /// An input that is a sequence: the shapes of its tensors, each of which is an argument, `x_0`, `x_1` and so on.
    #[must_use]
    pub fn sequence<S: Into<Vec<i64>>>(mut self, name: &str, shapes: impl IntoIterator<Item = S>) -> Self {
        self.options.sequences.insert(name.to_owned(), shapes.into_iter().map(Into::into).collect());
        self
    }

    /// An optional input that is not there.
    #[must_use]
    pub fn absent(mut self, name: &str) -> Self {
        self.options.absent.insert(name.to_owned());
        self
    }

    /// The most rounds of a loop, by the name of its node, whose number of rounds is known when the model runs only: for so many there is memory. A call with more
    /// of them is an error.
    #[must_use]
    pub fn bound(mut self, node: &str, rounds: i64) -> Self {
        self.options.bounds.insert(node.to_owned(), rounds);
        self
    }

    /// An input that always has these integers: what depends on it alone is computed at build time. A shape of no dimensions makes a scalar.
    #[must_use]
    pub fn constant_ints(mut self, name: &str, shape: &[i64], values: &[i64]) -> Self {
        self.constants.push((name.to_owned(), Constant::of_ints(values).reshaped(shape)));
        self
    }

    /// An input that always has these floats.
    #[must_use]
    pub fn constant_floats(mut self, name: &str, shape: &[i64], values: &[f32]) -> Self {
        self.constants.push((name.to_owned(), Constant::of_floats(values).reshaped(shape)));
        self
    }

    /// The outputs that are wanted; what only others need is left out. Values inside of the model may be outputs, too.
    #[must_use]
    pub fn outputs<S: AsRef<str>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.options.outputs = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
        self
    }

    /// An operator that ONNX does not have, by its domain and name: what it computes, as tensor expressions.
    ///
    /// ```no_run
    /// use kernpack_build::graph::op::{CustomOperator, element_tensor};
    /// use kernpack_build::te;
    ///
    /// # fn main() -> kernpack_build::Result<()> {
    /// let swish = CustomOperator::new("com.example", "Swish", |call| {
    ///     let (x, beta) = (call.input(0)?, call.attrs.float("beta", 1.0)?);
    ///     Ok(vec![element_tensor(&x.shape, |position| {
    ///         let x = x.at(position);
    ///         &x * te::sigmoid(&x * te::constant(beta, x.dtype()))
    ///     })])
    /// });
    /// kernpack_build::Library::new().model_with("model.onnx", |model| model.operator(swish)).build()
    /// # }
    /// ```
    #[must_use]
    pub fn operator(mut self, operator: CustomOperator) -> Self {
        self.options.operators.push(operator);
        self
    }

    /// The type that weights of products and convolutions are kept in: `F16` or `BF16` of [`crate::te`] halve the library, and what is read of them when the
    /// model runs. They are widened where they are read; what is computed stays in single precision.
    #[must_use]
    pub fn weights(mut self, dtype: DataType) -> Self {
        self.options.weights = Some(dtype);
        self
    }

    /// Sets whether operators are fused, as they are by default. Without fusion each node is a
    /// kernel, which helps to find a slow or wrong node.
    #[must_use]
    pub fn fuse(mut self, yes: bool) -> Self {
        self.fuse = yes;
        self
    }

    /// Sets the optimization level. The default is 3.
    ///
    /// - 0: each node is computed as its definition says, by plain loops on one thread.
    /// - 1: each node is a kernel with a schedule.
    /// - 2: operators are fused.
    /// - 3: equivalent faster nodes also replace nodes of the model.
    ///
    /// Low levels help to find errors.
    #[must_use]
    pub fn opt_level(mut self, level: u8) -> Self {
        self.level = level;
        self.options.plain = level < 3;
        self
    }

    /// An input that is the output of the call before: `State` in Rust keeps the two, and they are no arguments of its methods. The first call, and the first after
    /// `State::reset`, sees zeros. The packed function has both as arguments.
    #[must_use]
    pub fn state(mut self, input: &str, output: &str) -> Self {
        self.kept.push((input.to_owned(), output.to_owned()));
        self
    }

    /// Sets how kernels use threads: all kernels in one parallel region, one region for each
    /// kernel, or only the calling thread.
    #[must_use]
    pub fn threads(mut self, threads: Threads) -> Self {
        self.threads = threads;
        self
    }

    /// Takes weights that are not numbers, which are an error otherwise.
    #[must_use]
    pub fn allow_nan(mut self) -> Self {
        self.options.allow_nan = true;
        self
    }

    pub(crate) fn lowering(&self) -> LowerOptions {
        let by_level = LowerOptions::of_level(self.level);
        let threads = if self.level == 0 { by_level.threads } else { self.threads };
        LowerOptions { fuse: self.fuse && by_level.fuse, threads, ..by_level }
    }
}
