//! A model of a library.

use std::iter::StepBy;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use kernpack_compiler::ir::DataType;
use kernpack_graph::{Constant, CustomOperator, GraphError, LowerOptions, ModelOptions, RangeDim, Threads};

/// A model of a library, with the options of the build script. `Library::model_with` creates it.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) options: ModelOptions,
    pub(crate) constants: Vec<(String, Result<Constant, GraphError>)>,
    pub(crate) fuse: bool,
    pub(crate) level: u8,
    /// Inputs that states keep, and the outputs that replace them.
    pub(crate) kept: Vec<(String, String)>,
    pub(crate) threads: Threads,
    /// True if the weights are in a file beside the library.
    pub(crate) has_weights_file: bool,
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
            has_weights_file: false,
        }
    }

    /// Sets the name of the function. The default is the name of the file.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Sets the extent of a symbolic dimension: `.dim("batch", 1)`.
    #[must_use]
    pub fn dim(mut self, name: &str, extent: i64) -> Self {
        self.options.dims.insert(name.to_owned(), extent);
        self
    }

    /// Makes a symbolic dimension dynamic, with its largest extent: `.dim_up_to("batch", 64)`. The
    /// function accepts any extent from 1 on. The output for one index of the dimension may depend
    /// only on the inputs at that index, as for a batch. If this cannot be proven for a model, the
    /// build fails with an error that names the node.
    #[must_use]
    pub fn dim_up_to(mut self, name: &str, most: i64) -> Self {
        self.options.up_to.insert(name.to_owned(), most);
        self
    }

    /// Makes a symbolic dimension dynamic, with a list of allowed extents:
    /// `.dim_in("sequence", [32, 64, 128])`. The model is compiled for each of them, and the
    /// function runs the kernels for the extent of the call. The library contains weights once if
    /// the kernels of all extents need the same layout.
    #[must_use]
    pub fn dim_in(mut self, name: &str, extents: impl Into<Vec<i64>>) -> Self {
        self.options.dims_in.insert(name.to_owned(), extents.into());
        self
    }

    /// Makes a symbolic dimension dynamic, with any extent of a range:
    /// `.dim_range("batch", 1..=64)`, or with multiples of a number, where the model divides the
    /// extent: `.dim_range("height", (32..=2048).step_by(32))`. Several dimensions can have ranges,
    /// on any axes. The model is compiled once: the extents are arguments of its kernels.
    #[must_use]
    pub fn dim_range(mut self, name: &str, extents: impl Into<DimExtents>) -> Self {
        let DimExtents { least, most, step } = extents.into();
        self.options.ranges.push(RangeDim { name: name.to_owned(), least, most, step });
        self
    }

    /// Makes a symbolic dimension follow from others: the extent of
    /// `.dim_sum("total", "past + tokens")` is the sum of theirs. A sum has numbers, and dimensions
    /// with an extent or a range, with `+` and `*`. A dimension whose name is such a sum, as
    /// exporters write it, needs nothing.
    #[must_use]
    pub fn dim_sum(mut self, name: &str, sum: &str) -> Self {
        self.options.sums.insert(name.to_owned(), sum.to_owned());
        self
    }

    /// Sets the shape of an input.
    #[must_use]
    pub fn input(mut self, name: &str, shape: impl Into<Vec<i64>>) -> Self {
        self.options.inputs.insert(name.to_owned(), shape.into());
        self
    }

    /// Declares a sequence input with the shapes of its tensors. Each tensor is an argument, `x_0`,
    /// `x_1` and so on.
    #[must_use]
    pub fn sequence<S: Into<Vec<i64>>>(mut self, name: &str, shapes: impl IntoIterator<Item = S>) -> Self {
        self.options.sequences.insert(name.to_owned(), shapes.into_iter().map(Into::into).collect());
        self
    }

    /// Declares an optional input as missing.
    #[must_use]
    pub fn absent(mut self, name: &str) -> Self {
        self.options.absent.insert(name.to_owned());
        self
    }

    /// Sets the maximum number of iterations of a loop, by the name of its node, if the number of
    /// iterations is only known at run time. Memory is reserved for this number. A call with more
    /// iterations is an error.
    #[must_use]
    pub fn bound(mut self, node: &str, rounds: i64) -> Self {
        self.options.bounds.insert(node.to_owned(), rounds);
        self
    }

    /// Sets an input to constant integers. Values that depend only on it are computed at build
    /// time. A shape without dimensions makes a scalar.
    #[must_use]
    pub fn constant_ints(mut self, name: &str, shape: &[i64], values: &[i64]) -> Self {
        self.constants.push((name.to_owned(), Constant::of_ints(values).reshaped(shape)));
        self
    }

    /// Sets an input to constant floats.
    #[must_use]
    pub fn constant_floats(mut self, name: &str, shape: &[i64], values: &[f32]) -> Self {
        self.constants.push((name.to_owned(), Constant::of_floats(values).reshaped(shape)));
        self
    }

    /// Selects the outputs. Nodes that only other outputs need are removed. Intermediate values of
    /// the model may be outputs, too.
    #[must_use]
    pub fn outputs<S: AsRef<str>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.options.outputs = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
        self
    }

    /// Adds an operator that ONNX does not have, by its domain and name, with its computation as
    /// tensor expressions.
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

    /// Sets the type in which the weights of matrix products and convolutions are stored: `F16` or
    /// `BF16` of [`crate::te`] halve the size of the library, and the memory traffic of weights at
    /// run time. Weights are widened when they are read. Computations stay in single precision.
    #[must_use]
    pub fn weights(mut self, dtype: DataType) -> Self {
        self.options.weights = Some(dtype);
        self
    }

    /// Writes the weights to a file instead of the library: `OUT_DIR/kernpack/NAME.weights`, which
    /// `cargo kernpack outputs --kind weights` shows. Put it beside the library, and load it before
    /// the first call, with `kernels::NAME::weights(path)` in Rust or the packed function
    /// `NAME_weights(path)`. A file may be replaced by that of another model with the same graph,
    /// which `cargo kernpack model weights` makes.
    ///
    /// The file is mapped read-only, so that all processes share its memory. As long as a process
    /// uses it, replace it by a rename only: writing into it changes results, and shortening it
    /// ends the process (SIGBUS).
    #[must_use]
    pub fn weights_file(mut self) -> Self {
        self.has_weights_file = true;
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

    /// Makes an input the output of the previous call: `State` in Rust keeps the two, and they are
    /// not arguments of its methods. The first call, and the first after `State::reset`, gets
    /// zeros. The packed function has both as arguments.
    ///
    /// With a range from 0 on, `.dim_range("past", 0..=511)`, the value may grow: it is empty in
    /// the first call, and the output, such as `past + tokens` rows of keys, is the input of the
    /// next one. The memory grows with it. `State` then has a method with the name of the
    /// dimension, which returns the extent.
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

    /// Accepts weights that are NaN, which are an error otherwise.
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

/// The extents that a dynamic dimension may have: a range such as `1..=64`, or multiples of a
/// number such as `(32..=2048).step_by(32)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DimExtents {
    least: i64,
    most: i64,
    step: i64,
}

impl From<RangeInclusive<i64>> for DimExtents {
    fn from(extents: RangeInclusive<i64>) -> Self {
        Self { least: *extents.start(), most: *extents.end(), step: 1 }
    }
}

impl From<StepBy<RangeInclusive<i64>>> for DimExtents {
    fn from(mut extents: StepBy<RangeInclusive<i64>>) -> Self {
        let Some(least) = extents.next() else {
            // The model says that the range is empty.
            return Self { least: 1, most: 0, step: 1 };
        };
        let more = i64::try_from(extents.size_hint().0).unwrap_or(i64::MAX);
        match extents.next() {
            Some(second) => {
                Self { least, most: least.saturating_add(more.saturating_mul(second - least)), step: second - least }
            }
            None => Self { least, most: least, step: 1 },
        }
    }
}
