//! Models: imported, lowered for each CPU level, and compiled by LLVM into the library, with their
//! weights.

mod header;
mod options;
mod weights;
mod weights_file;

use std::cell::OnceCell;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use kernpack_compiler::codegen::{self, Target};
use kernpack_compiler::ir::{DataTypeExt, IrModule};
use kernpack_compiler::{PassContext, PassOptions, TargetDescription};
use kernpack_graph::weights_file::Level;
use kernpack_graph::{Dump, Extents, Graph, GraphError, Imported, Lowered, ModelOptions, OpenDim, Weights};

pub use kernpack_graph::Threads;
pub use options::{DimExtents, Model};
use weights::Objects;

use crate::cache::Made as Stored;
use crate::cache::digest::{Digest, Digester};
use crate::cache::step::{Ran, Step};
use crate::describe::Description;
use crate::describe::signature::{ELEMENTS, Param, Signature, Type};
use crate::describe::symbols::Compiled;
use crate::generate::model::{Kept, ModelArgument, ModelItems, OpenAxis, OpenDimension};
use crate::llvm::{self, Machine};
use crate::multiversion::{Version, results};
use crate::outputs::{Output, progress};
use crate::session::Session;
use crate::te_kernels::{keep, runtime_of};
use crate::{Error, Result, tool};

/// The result of building the models of a library, except the objects.
#[derive(Default)]
pub(crate) struct ModelOutcome {
    /// The kernels of each model, for people.
    pub(crate) outputs: Vec<Output>,
    /// The warnings for cargo.
    pub(crate) warnings: String,
    /// The descriptions of the functions, by name.
    pub(crate) descriptions: Vec<(String, Description)>,
    /// The models for code generation.
    pub(crate) items: Vec<ModelItems>,
    /// Objects with weights, or with their addresses, which the code of all versions uses.
    pub(crate) weights: Vec<PathBuf>,
}

/// A model of the library that was read.
struct Read<'a> {
    model: &'a Model,
    source: String,
    /// The fingerprint of the file, and of weights in other files.
    content: Digest,
    graph: Graph,
    /// The files with the graph after each pass, if they are requested.
    dumps: Vec<Output>,
}

/// Compiles every version of every model. Errors of one model do not hide those of others. The
/// objects are grouped by version, in the order of the models.
pub(crate) fn compile(
    session: &Session,
    models: &[Model],
    versions: &[Version],
    dump: bool,
) -> Result<(Vec<Vec<Compiled>>, ModelOutcome)> {
    let mut outcome = ModelOutcome::default();
    if models.is_empty() {
        return Ok((vec![Vec::new(); versions.len()], outcome));
    }
    let made = Error::collect(models.iter().map(|model| read(session, model, dump)))?;
    for read in &made {
        outcome.outputs.extend(read.dumps.iter().cloned());
        for warning in &read.graph.warnings {
            let _ = writeln!(outcome.warnings, "{}: {warning}", read.source);
        }
        outcome.descriptions.extend(descriptions(&read.model.name, &read.graph));
    }
    let machines = Error::collect(versions.iter().map(|version| Machine::of(&session.target, *version)))?;
    let sources: Vec<String> = made.iter().map(|read| read.source.clone()).collect();
    let jobs: Vec<(usize, &Machine)> =
        (0..made.len()).flat_map(|index| machines.iter().map(move |machine| (index, machine))).collect();
    let places: Vec<usize> = jobs.iter().map(|(index, _)| *index).collect();
    let objects = Objects::new(session);
    let done = tool::in_parallel(session.jobs, jobs, |(index, machine): (usize, &Machine)| {
        one(session, machine, index, &made[index], &objects)
    });
    let mut rows: Vec<Vec<Result<Compiled>>> = sources.iter().map(|_| Vec::new()).collect();
    let mut infos: Vec<Vec<String>> = sources.iter().map(|_| Vec::new()).collect();
    let mut levels: Vec<Vec<Level>> = sources.iter().map(|_| Vec::new()).collect();
    for (index, done) in places.into_iter().zip(done) {
        rows[index].push(done.map(|made| {
            outcome.outputs.extend(made.outputs);
            outcome.weights.extend(made.weights);
            infos[index].push(made.info);
            levels[index].extend(made.level);
            made.code
        }));
    }
    outcome.weights.sort();
    outcome.weights.dedup();
    objects.remove_all_but(&outcome.weights);
    // A failed level is reported below.
    let known = made.iter().zip(&infos).zip(levels);
    let known = known.filter_map(|((read, infos), levels)| Some((read, infos.last()?, infos, levels)));
    let known = Error::collect(known.map(|(read, info, infos, levels)| Ok((read, items(read, info, infos)?, levels))))?;
    for (read, mut items, levels) in known {
        if read.model.has_weights_file && levels.len() == versions.len() {
            let (path, file) = weights_file::write(session, &read.source, &items.name, &levels, &machines)?;
            outcome.weights.push(weights_file::variables(session, &read.source, &items.name, &machines)?);
            outcome.outputs.push(Output::of("weights", &path, &read.source, [items.name.as_str()]));
            let recipe = weights_file::recipe(read.model, options_of(read.model)?, &levels, &machines);
            weights_file::describe(&mut items.info, &file, &recipe);
            items.weights_file = Some(file);
        }
        let path = session.work_dir.join(format!("{}.h", items.name));
        write(&path, header::write(&items).as_bytes())?;
        outcome.outputs.push(Output::of("header", &path, &read.source, [items.name.as_str()]));
        outcome.items.push(items);
    }
    Ok((results::by_version(versions, &sources, rows)?, outcome))
}

/// The result of compiling a model for a CPU level.
struct Made {
    code: Compiled,
    /// The object of the weights, if there are any.
    weights: Option<PathBuf>,
    /// The weights for a file.
    level: Option<Level>,
    /// The description of the model, as JSON.
    info: String,
    outputs: Vec<Output>,
}

fn problems(source: &str) -> impl Fn(GraphError) -> Error + '_ {
    move |error| {
        let problems = error.problems().into_iter().map(|problem| format!("{source}: {problem}"));
        Error::of_problems(problems.collect())
    }
}

fn read<'a>(session: &Session, model: &'a Model, dump: bool) -> Result<Read<'a>> {
    session.input(&model.path)?;
    let source = session.name_of(&model.path);
    let full = session.package_dir.join(&model.path);
    let bytes = fs::read(&full).map_err(|error| Error::new(format!("{source}: cannot be read: {error}")))?;
    let options = ModelOptions { dump, ..options_of(model)? };
    // Once for all levels: hashing takes long in a build script, which is compiled without
    // optimization.
    let mut content = Digester::new("model");
    content.field(&bytes);
    let mut dumps = Vec::new();
    let imported = kernpack_graph::import_and_dump(bytes, full.parent(), &options, &mut dumps);
    // Also after an error: the last dump is the input of the pass that failed.
    let folder = session.work_dir.join(&model.name);
    let kept = keep_dumps(&folder, &model.name, &source, &dumps)?;
    let Imported { graph, files, .. } = imported.map_err(|error| match dumps.is_empty() {
        true => problems(&source)(error),
        false => problems(&source)(error.within(&format!("the graphs before the error are in {}", folder.display()))),
    })?;
    for file in &files {
        session.tracker.file(file);
    }
    if !files.is_empty() {
        // Weights from other files are in the graph.
        for known in graph.values.iter().filter_map(|value| value.known.as_ref()) {
            content.field(known.bytes());
        }
    }
    Ok(Read { model, source, content: content.finish(), graph, dumps: kept })
}

/// Writes the graphs of a model after each pass.
fn keep_dumps(folder: &Path, name: &str, source: &str, dumps: &[Dump]) -> Result<Vec<Output>> {
    let dumps = dumps.iter().enumerate().map(|(number, Dump { pass, place, text })| {
        let path = folder.join(format!("{number:04}_{pass}.graph.txt"));
        let text = if place.is_empty() { text.clone() } else { format!("{place}:\n{text}") };
        keep(&path, &text)?;
        Ok(Output::of("graph", &path, source, [name]))
    });
    dumps.collect()
}

fn options_of(model: &Model) -> Result<ModelOptions> {
    let mut options = model.options.clone();
    for (name, constant) in &model.constants {
        let constant = constant.clone().map_err(|error| Error::new(format!("constant '{name}': {error}")))?;
        options.constants.insert(name.clone(), constant);
    }
    Ok(options)
}

/// Returns the fingerprint of everything that determines a model for a CPU level.
fn recipe(session: &Session, machine: &Machine, read: &Read<'_>) -> Digest {
    let model = read.model;
    let mut recipe = machine.recipe(session);
    recipe
        .field("model")
        .field(&model.name)
        .field(read.content.to_bytes())
        .field(format!("{:?}", model.options))
        .field(format!("{:?}", model.lowering()))
        .field([u8::from(model.has_weights_file)]);
    for (constant, value) in &model.constants {
        recipe.field(constant).field(value.as_ref().map_or(&[][..], |value| value.bytes()));
    }
    recipe.field(this_program());
    recipe.finish()
}

fn one(session: &Session, machine: &Machine, index: usize, read: &Read<'_>, objects: &Objects) -> Result<Made> {
    let Read { model, source, graph, .. } = read;
    let name = &model.name;
    let version = machine.version;
    let object = version.product(session, "model", index, Path::new(name), "o");
    let listing = object.with_extension("kernels.txt");
    // The weights themselves are not a product: they are as large as the model, and other levels
    // share them.
    let symbol_file = object.with_extension("weights.txt");
    let info = object.with_extension("model.json");
    let products: [PathBuf; 4] = [object.clone(), symbol_file.clone(), listing.clone(), info.clone()];
    let shown = version.source(source);
    let step = Step { recipe: recipe(session, machine, read), source: &shown, tool: "LLVM", products: &products };
    let runtime = runtime_of(&machine.triple);
    let target = Target { runtime, ..Target::llvm(&machine.triple, &machine.cpu, &machine.features) };
    // The tests of passes verify them. Here it would take a quarter of the time.
    let context = PassContext::new(PassOptions { verify: false, ..PassOptions::default() });
    let level = OnceCell::new();
    let lower = || -> Result<(Lowered, Option<(String, Weights)>)> {
        let (target, options) = (TargetDescription::of(&target), model.lowering());
        if model.has_weights_file {
            let symbol = weights_file::symbol(name, machine.version);
            let lowered = kernpack_graph::lower_for_file(graph, name, &target, &context, options, &symbol);
            let (lowered, weights) = lowered.map_err(problems(source))?;
            _ = level.set(Level::new(&machine.version.to_string(), &lowered, weights));
            return Ok((lowered, None));
        }
        if !objects.are_possible() {
            let lowered = kernpack_graph::lower(graph, name, &target, &context, options);
            return Ok((lowered.map_err(problems(source))?, None));
        }
        let mut symbol = String::new();
        let lowered = kernpack_graph::lower_apart(graph, name, &target, &context, options, |weights| {
            symbol = objects.symbol(weights);
            symbol.clone()
        });
        let (lowered, weights) = lowered.map_err(problems(source))?;
        Ok((lowered, (weights.size() > 0).then_some((symbol, weights))))
    };
    step.make(session, || {
        let (lowered, weights) = lower()?;
        write(&info, lowered.describe(graph, name).as_bytes())?;
        write(&symbol_file, weights.as_ref().map_or("", |(symbol, _)| symbol).as_bytes())?;
        if let Some((symbol, weights)) = weights {
            objects.write(source, &symbol, &weights)?;
        }
        compile_program(session, machine, name, &shown, &lowered.module, &target, &object)?;
        let mut text = format!(
            "{name}: {} kernels, {} bytes of temporary memory, {} bytes of weights\n",
            lowered.kernels.len(),
            lowered.arena,
            lowered.weights
        );
        for kernel in &lowered.kernels {
            let _ = writeln!(text, "{}: {}", kernel.function, kernel.operators.join(" + "));
        }
        for note in context.take_notes() {
            let _ = writeln!(text, "note: {note}");
        }
        write(&listing, text.as_bytes())?;
        Ok(Ran { printed: String::new(), inputs: Vec::new() })
    })?;
    let text = |path: &Path| {
        fs::read_to_string(path).map_err(|error| Error::new(format!("{}: cannot be read: {error}", path.display())))
    };
    let symbol = text(&symbol_file)?;
    let weights = (!symbol.is_empty()).then(|| objects.path(&symbol));
    if let Some(path) = &weights
        && !path.exists()
        && let (_, Some((symbol, weights))) = lower()?
    {
        // The code was cached, and the weights were removed when another model replaced it.
        objects.write(source, &symbol, &weights)?;
    }
    if model.has_weights_file && level.get().is_none() {
        // The code was cached. The file is written in each run of the build script.
        lower()?;
    }
    let outputs =
        [("notes", &listing), ("model", &info)].map(|(kind, path)| Output::of(kind, path, source, [name.as_str()]));
    let info = text(&info)?;
    Ok(Made {
        code: Compiled { source: source.clone(), object },
        weights,
        level: level.into_inner(),
        info,
        outputs: outputs.to_vec(),
    })
}

/// Compiles a program, or takes its object from the cache. The cache knows it by the module in LLVM
/// IR: a build script that changed otherwise, or a model with other weights in a file, gives the
/// same module.
fn compile_program(
    session: &Session,
    machine: &Machine,
    name: &str,
    source: &str,
    program: &IrModule,
    target: &Target,
    object: &Path,
) -> Result<()> {
    llvm::in_context(|context, diagnostics| {
        let module = context.create_module(name);
        let target_machine = machine.create()?;
        llvm::prepare(&module, &target_machine, &session.target.triple, source)?;
        codegen::llvm::emit_into(program, target, context, &module)
            .map_err(|error| Error::of_problems(error.problems()))?;
        // Bitcode requires a valid module.
        module.verify().map_err(|error| llvm::rejected(source, &error.to_string()))?;
        let mut recipe = machine.recipe(session);
        recipe.field("module of a model").field(module.write_bitcode_to_memory().as_slice());
        let recipe = recipe.finish();
        if let Some((kept, _)) = session.cache.find(recipe)
            && let [bytes] = kept.products.as_slice()
        {
            progress::line(&format!("{source}: the kernels are those of an earlier build"));
            return write(object, bytes);
        }
        llvm::emit(&module, &target_machine, diagnostics, source, object)?;
        let bytes =
            fs::read(object).map_err(|error| Error::new(format!("{}: cannot be read: {error}", object.display())))?;
        session.cache.keep(recipe, &[], &Stored { products: vec![bytes], printed: String::new() });
        Ok(())
    })
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).map_err(|error| Error::new(format!("{}: cannot be written: {error}", path.display())))
}

/// Identifies this build script, so that a build script with another compiler in it lowers a model
/// again.
fn this_program() -> String {
    let program = std::env::current_exe().and_then(|path| Ok((fs::metadata(&path)?, path)));
    match program {
        Ok((metadata, path)) => format!("{} {} {:?}", path.display(), metadata.len(), metadata.modified().ok()),
        Err(_) => String::new(),
    }
}

/// Returns the tensors of a model: names, element types in memory, and shapes.
fn arguments(graph: &Graph) -> Vec<ModelArgument> {
    let ids = graph.inputs.iter().chain(graph.outputs.iter().map(|(_, id)| id));
    let names = kernpack_graph::lower::argument_names(graph);
    let (extents, texts) = (graph.argument_extents(), graph.argument_texts());
    let dims = graph.open_dims();
    let places: Vec<String> = (0..dims.len()).map(|number| format!("{{{number}}}")).collect();
    let cut = dims.iter().position(|dim| matches!(dim.extents, Extents::UpTo(_)));
    let chosen = dims.iter().position(|dim| matches!(dim.extents, Extents::OneOf(_)));
    ids.zip(names)
        .zip(extents.iter().zip(texts))
        .map(|((id, name), (extents, texts))| {
            let value = &graph.values[*id];
            let stored = kernpack_graph::stored(value.dtype);
            let raw = stored.as_raw();
            let open = extents.iter().enumerate().filter(|(_, extent)| extent.fixed().is_none());
            let open = open.map(|(axis, extent)| OpenAxis {
                axis,
                by_size: extent.by_size.clone(),
                cut: cut.filter(|_| extent.is_cut),
                chosen: chosen.filter(|_| extent.by_size.iter().any(|size| *size != extent.by_size[0])),
                formula: extent.formula.as_ref().map(|formula| formula.text(&places)),
            });
            let open = open.collect();
            let dtype = (raw.code, raw.bits, stored.to_string());
            ModelArgument { name, dtype, shape: value.shape.clone(), texts, open }
        })
        .collect()
}

/// Returns the data that generated code needs. `infos` contains the descriptions for all CPU
/// levels. The memory size is enough for each of them.
fn items(read: &Read<'_>, info: &str, infos: &[String]) -> Result<ModelItems> {
    let parse = |text: &str| -> Result<serde_json::Value> {
        serde_json::from_str(text).map_err(|error| Error::new(format!("{}: its description: {error}", read.source)))
    };
    let mut state = 0;
    for info in infos {
        state = state.max(parse(info)?["state"].as_u64().unwrap_or(0));
    }
    let kept = kept(read)?;
    let mut outputs = arguments(&read.graph);
    let inputs: Vec<ModelArgument> = outputs.drain(..read.graph.inputs.len()).collect();
    let mut dims: Vec<OpenDimension> = read.graph.open_dims().into_iter().map(open_dimension).collect();
    told_by_arguments(&mut dims, &inputs, &kept);
    Ok(ModelItems {
        name: read.model.name.clone(),
        source: read.source.clone(),
        inputs,
        outputs,
        kept,
        dims,
        state,
        steps: parse(info)?["kernels"].as_array().map_or(0, Vec::len),
        info: info.to_owned(),
        weights_file: None,
    })
}

/// Returns the values that a state keeps.
fn kept(read: &Read<'_>) -> Result<Vec<Kept>> {
    let graph = &read.graph;
    let (all, dims) = (arguments(graph), graph.open_dims());
    let mut found = Vec::new();
    for (input, output) in &read.model.kept {
        let no = |kind: &str, name: &str| {
            Error::new(format!("{}: state '{name}': the model has no {kind} of this name", read.source))
        };
        let before =
            graph.inputs.iter().position(|id| graph.values[*id].name == *input).ok_or_else(|| no("input", input))?;
        let after = graph.outputs.iter().position(|(name, _)| name == output).ok_or_else(|| no("output", output))?;
        let (first, second) = (&all[before], &all[graph.inputs.len() + after]);
        let types = [graph.values[graph.inputs[before]].dtype, graph.values[graph.outputs[after].1].dtype];
        let differ = || {
            Err(Error::new(format!(
                "{}: state '{input}' is {}{}, and '{output}', which is to take its place, {}{}",
                read.source,
                types[0],
                first.extents(),
                types[1],
                second.extents()
            )))
        };
        if types[0] != types[1] || first.texts.len() != second.texts.len() {
            return differ();
        }
        let is_open = !first.open.is_empty() || !second.open.is_empty();
        if !is_open && (first.texts != second.texts || first.shape.contains(&0)) {
            return differ();
        }
        if !is_open {
            found.push(Kept { input: before, output: after, open: None });
            continue;
        }
        if let Some(open) = first.open.iter().chain(&second.open).find(|open| open.formula.is_none()) {
            let dim = open.cut.or(open.chosen).and_then(|number| dims.get(number)).map_or("", |dim| &dim.name);
            return Err(Error::new(format!(
                "{}: state '{input}' has the dimension '{dim}', which each call tells: say one extent, `.dim(\"{dim}\", extent)`, or a range, `.dim_range(\"{dim}\", 1..=extent)`",
                read.source
            )));
        }
        let axes: Vec<usize> =
            (0..first.texts.len()).filter(|axis| first.texts[*axis] != second.texts[*axis]).collect();
        let axis = match axes[..] {
            [] => None,
            [axis] => Some(axis),
            _ => return differ(),
        };
        if let Some(axis) = axis {
            let open = first.open.iter().find(|open| open.axis == axis).and_then(|open| open.formula.as_deref());
            let number = (0..dims.len()).find(|number| open == Some(&format!("{{{number}}}")));
            let Some(dim) = number.map(|number| open_dimension(dims[number].clone())) else { return differ() };
            if dim.least != 0 {
                return Err(Error::new(format!(
                    "{}: state '{input}' grows along the dimension '{}', which is {}, and is 0 in the first call: say a range from 0 on, `.dim_range(\"{}\", 0..={})`",
                    read.source, dim.name, dim.extents, dim.name, dim.most
                )));
            }
        }
        found.push(Kept { input: before, output: after, open: Some(axis) });
    }
    Ok(found)
}

/// Takes the extents of dimensions from inputs that are arguments of each call, where there are
/// some.
fn told_by_arguments(dims: &mut [OpenDimension], inputs: &[ModelArgument], kept: &[Kept]) {
    for (number, dim) in dims.iter_mut().enumerate() {
        let place = format!("{{{number}}}");
        let own = inputs.iter().enumerate().filter(|(index, _)| !kept.iter().any(|kept| kept.input == *index));
        let at = own.flat_map(|(index, input)| input.open.iter().map(move |open| (index, open)));
        let mut at = at.filter(|(_, open)| open.formula.as_ref() == Some(&place));
        if kept.iter().any(|kept| kept.input == dim.at.0)
            && let Some((index, open)) = at.next()
        {
            dim.at = (index, open.axis);
        }
    }
}

fn open_dimension(dim: OpenDim) -> OpenDimension {
    let extents = dim.extents.to_string();
    let (least, most, step, one_of) = match dim.extents {
        Extents::UpTo(most) => (1, most, 1, Vec::new()),
        Extents::Range(least, most, step) => (least, most, step, Vec::new()),
        Extents::OneOf(sizes) => {
            (sizes.iter().copied().min().unwrap_or(1), sizes.iter().copied().max().unwrap_or(1), 1, sizes)
        }
    };
    OpenDimension { name: dim.name, extents, least, most, step, one_of, at: dim.at }
}

/// Returns the complete descriptions of the arguments of a model's functions.
fn descriptions(name: &str, graph: &Graph) -> [(String, Description); 2] {
    let whole = description(graph);
    let mut steps = whole.clone();
    if let Ok(signature) = &mut steps.signature {
        let tensor = Type::Tensor { element: Some("uint8"), written: true };
        let int = || Type::Int { bits: 64, signed: true };
        let own = [("state", tensor), ("first", int()), ("end", int())];
        let own = own.map(|(name, ty)| Param { name: name.to_owned(), ty });
        signature.params.splice(0..0, own);
    }
    steps.doc = format!(
        "A part of the model `{name}`: its kernels from `first` up to `end`, one behind the last, with temporary memory of the caller's. The values between are in `state`, \
         whose size `{name}_info` tells."
    );
    [(name.to_owned(), whole), (format!("{name}_steps"), steps)]
}

/// Returns the complete description of a model's arguments.
fn description(graph: &Graph) -> Description {
    let mut params = Vec::new();
    let mut shapes = Vec::new();
    let inputs = graph.inputs.iter().map(|id| (*id, false));
    let outputs = graph.outputs.iter().map(|(_, id)| (*id, true));
    for ((id, written), argument) in inputs.chain(outputs).zip(arguments(graph)) {
        let value = &graph.values[id];
        let name = argument.name.clone();
        // Types without arithmetic are bytes for the caller.
        let stored = kernpack_graph::stored(value.dtype);
        let element = ELEMENTS.into_iter().find(|element| *element == stored.to_string());
        let bytes = if stored == value.dtype { String::new() } else { format!(" as {}", stored.short_name()) };
        // Data-dependent values are at the start of a buffer.
        let part = if graph.extents.contains_key(&id) { " at most, as `_extents` tells" } else { "" };
        shapes.push(format!("`{name}{}` {}{bytes}{part}", argument.extents(), value.dtype.short_name()));
        params.push(Param { name, ty: Type::Tensor { element, written } });
    }
    let open = graph.open_dims().into_iter().map(|dim| format!(" `{}` is {}.", dim.name, dim.extents));
    let open: String = open.collect();
    let labels = graph.labels.iter().map(|(output, names)| {
        format!(" Elements or columns of `{output}` stand for the texts `{}`, in this order.", names.join("`, `"))
    });
    let labels: String = labels.collect();
    let doc = format!("A model{}. Shapes: {}.{open}{labels}", named(&graph.name), shapes.join(", "));
    Description { doc, signature: Ok(Signature { params, result: Type::None }), declared: true }
}

fn named(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(": `{name}`") }
}
