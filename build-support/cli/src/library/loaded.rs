//! The description that a loaded library returns: signatures, documentation, types, global
//! functions. A separate process loads it, because loading runs the library's code. A crash there
//! does not affect this process.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kernpack::reflect::{AttrColumn, TypeInfo};
use kernpack::sys::abi::field_flag;
use kernpack::{Any, AnyView, Array, Function, Module, Str};
use serde_json::{Value, json};

use crate::Result;
use crate::library::model;
use crate::library::shape::Shape;

/// The other process's answer: `functions`, `models`, `types`, `global_functions`, `problem` (the
/// reason why the library did not load).
pub(crate) struct Loaded(Value);

/// The command of the process that loads the library.
pub(crate) const DESCRIBE: &str = "describe-in-this-process";

/// The mark before the answer, because a library may print text, too.
const MARK: &str = "\u{1}kernpack-describes\n";
const TIME: Duration = Duration::from_secs(60);
const TIME_OF_MODELS: Duration = Duration::from_secs(600);
const MOST_OUTPUT: u64 = 64 << 20;

impl Loaded {
    /// The reason why the library did not load.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.0.get("problem")?.as_str()
    }

    pub(crate) fn metadata(&self, function: &str) -> Option<&str> {
        self.0.get("functions")?.get(function)?.get("metadata")?.as_str()
    }

    pub(crate) fn doc(&self, function: &str) -> Option<&str> {
        self.0.get("functions")?.get(function)?.get("doc")?.as_str()
    }

    /// The descriptions of its models. See [`model::describe`].
    pub(crate) fn models(&self) -> &[Value] {
        self.list("models")
    }

    /// Returns a global function's metadata.
    pub(crate) fn global_metadata(&self, function: &str) -> Option<&str> {
        self.0.get("global_metadata")?.get(function)?.as_str()
    }

    /// The types: objects with `key`, `parent`, `doc`, `fields`, `methods`, `variants` and
    /// `constructible`; `equal`, `hash` and `order` for types whose library defines them.
    pub(crate) fn types(&self) -> &[Value] {
        self.list("types")
    }

    /// The library's own kinds of errors, and the base kind of each.
    pub(crate) fn exceptions(&self) -> BTreeMap<String, String> {
        let kinds = self.0.get("exceptions").and_then(Value::as_object).into_iter().flatten();
        kinds.filter_map(|(kind, base)| Some((kind.clone(), base.as_str()?.to_owned()))).collect()
    }

    pub(crate) fn global_functions(&self) -> &[Value] {
        self.list("global_functions")
    }

    fn list(&self, key: &str) -> &[Value] {
        self.0.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Like [`DESCRIBE`], with times of the kernels of models.
pub(crate) const TIME_MODELS: &str = "describe-and-time-in-this-process";

/// Starts the process that loads the file, and reads its answer. With `time`, the kernels of models
/// are timed, with these extents of dynamic dimensions.
pub(crate) fn load(file: &Path, time: Option<&Shape>) -> Result<Loaded> {
    let file = file.canonicalize().map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut command = Command::new(program);
    command
        .arg(if time.is_some() { TIME_MODELS } else { DESCRIBE })
        .arg(&file)
        .args(time.map(Shape::to_string))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    let mut child = command.spawn().map_err(|error| format!("cannot start the process that loads: {error}"))?;
    let output = child.stdout.take().ok_or("the process that loads has no output")?;
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        output.take(MOST_OUTPUT).read_to_end(&mut text).map(|_| text)
    });
    let status = wait(&mut child, if time.is_some() { TIME_OF_MODELS } else { TIME })?;
    if !status.success() {
        return Err(format!("loading {} ended its process: {status}", file.display()));
    }
    let text = reader.join().ok().and_then(|text| text.ok()).ok_or("the process that loads gave no answer")?;
    let text = String::from_utf8_lossy(&text);
    let answer = text.rsplit_once(MARK).and_then(|(_, answer)| serde_json::from_str(answer).ok());
    answer.map(Loaded).ok_or_else(|| format!("the process that loaded {} gave no answer", file.display()))
}

fn wait(child: &mut Child, time: Duration) -> Result<std::process::ExitStatus> {
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if start.elapsed() < time => std::thread::sleep(Duration::from_millis(5)),
            outcome => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(match outcome {
                    Err(error) => format!("cannot wait for the process that loads: {error}"),
                    Ok(_) => format!("loading took more than {} seconds, and was ended", time.as_secs()),
                });
            }
        }
    }
}

/// Returns the answer as text. This runs in the process that loads the library.
pub(crate) fn describe(file: &Path, time: Option<&Shape>) -> Result<String> {
    let text = |error: kernpack::Error| error.to_string();
    kernpack::module::enable("cuda").map_err(text)?;
    let (types, globals) = (type_keys().map_err(text)?, global_names().map_err(text)?);
    let loaded = Module::load(file);
    let mut functions = serde_json::Map::new();
    let mut models = Vec::new();
    if let Ok(module) = &loaded {
        // If the root module is not the library, the library is one of the imports.
        let mut libraries = vec![module.clone()];
        libraries.extend(module.imports());
        for module in &libraries {
            models.extend(model::describe(module, time));
            for name in module.function_names() {
                // Information that a library fails to return is missing in the answer.
                let (metadata, doc) = (module.metadata(&name).ok().flatten(), module.doc(&name).ok().flatten());
                functions.insert(name, json!({ "metadata": metadata, "doc": doc }));
            }
        }
    }
    let new: Vec<_> = type_keys().map_err(text)?.difference(&types).map(|key| describe_type(key)).collect();
    let globals: Vec<_> = global_names().map_err(text)?.difference(&globals).cloned().collect();
    let metadata = globals.iter().filter_map(|name| Some((name.clone(), Value::from(global_metadata(name)?))));
    let metadata: serde_json::Map<String, Value> = metadata.collect();
    let exceptions = globals.iter().filter_map(|name| {
        let kind = name.strip_prefix("kernpack.exception.")?;
        let base: String = Function::global(name).ok()?.call_as(()).ok()?;
        Some((kind.to_owned(), Value::from(base)))
    });
    let exceptions: serde_json::Map<String, Value> = exceptions.collect();
    let globals: Vec<_> = globals.into_iter().filter(|name| !name.starts_with("kernpack.exception.")).collect();
    let problem = loaded.err().map(|error| error.to_string());
    let answer = json!({
        "functions": functions,
        "models": models,
        "types": new,
        "exceptions": exceptions,
        "global_functions": globals,
        "global_metadata": metadata,
        "problem": problem,
    });
    Ok(format!("{MARK}{answer}"))
}

fn type_keys() -> kernpack::Result<BTreeSet<String>> {
    let keys: Array<Str> = Function::global("ffi.GetRegisteredTypeKeys")?.call_as(())?;
    Ok(keys.iter().map(|key| key.to_string()).collect())
}

fn global_names() -> kernpack::Result<BTreeSet<String>> {
    Ok(Function::list_global_names()?.into_iter().collect())
}

fn describe_type(key: &str) -> Value {
    let Ok(info) = TypeInfo::by_key(key.as_bytes()) else { return json!({ "key": key }) };
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let fields = info.own_fields().map(|field| {
        json!({
            "name": field.name(),
            "metadata": lossy(field.metadata_bytes()),
            "writable": field.has(field_flag::WRITABLE),
            "in_constructor": !field.has(field_flag::INIT_OFF),
            "keyword_only": field.has(field_flag::KW_ONLY),
            "has_default": field.has(field_flag::HAS_DEFAULT),
        })
    });
    let methods = info.own_methods().map(|method| {
        // SAFETY: the record of a registered type keeps its strings forever.
        let (name, doc, metadata) = unsafe {
            let raw = method.as_raw();
            (lossy(raw.name.as_slice()), lossy(raw.doc.as_slice()), lossy(raw.metadata.as_slice()))
        };
        let is_static = method.as_raw().flags & field_flag::IS_STATIC_METHOD != 0;
        json!({ "name": name, "doc": doc, "metadata": metadata, "static": is_static })
    });
    // SAFETY: as above.
    let doc = info.metadata().map(|metadata| unsafe { lossy(metadata.doc.as_slice()) });
    static EQUAL: AttrColumn = AttrColumn::new("__ffi_eq__");
    static HASH: AttrColumn = AttrColumn::new("__ffi_hash__");
    static COMPARE: AttrColumn = AttrColumn::new("__ffi_compare__");
    let has = |column: &'static AttrColumn| column.get(info.index()).is_some();
    json!({
        "key": key,
        "equal": has(&EQUAL) || has(&COMPARE),
        "hash": has(&HASH),
        "order": has(&COMPARE),
        "parent": info.ancestor(info.depth() - 1).map(|parent| parent.key()),
        "doc": doc,
        "fields": fields.collect::<Vec<_>>(),
        "methods": methods.collect::<Vec<_>>(),
        // Other languages create objects with the creator, then set the fields.
        "constructible": info.metadata().is_some_and(|metadata| metadata.creator.is_some()),
        "variants": variants(info).unwrap_or_default(),
    })
}

fn global_metadata(name: &str) -> Option<String> {
    Function::global("ffi.GetGlobalFuncMetadata").ok()?.call_as((name,)).ok()
}

/// Returns the names of the instances of an enum, or `None` for another type.
fn variants(info: TypeInfo) -> Option<Vec<String>> {
    static STATES: AttrColumn = AttrColumn::new("__ffi_enum__");
    let entries: Vec<Any> = member(&STATES.get(info.index())?, "entries")?.to().ok()?;
    entries.iter().map(|entry| member(entry.as_view(), "_str_index")?.to().ok()).collect()
}

/// Returns the value of an object's field.
fn member(object: &AnyView<'_>, name: &str) -> Option<Any> {
    let field = TypeInfo::find(object.type_index())?.fields().find(|field| field.name() == name)?;
    // SAFETY: the view keeps the object alive, and its type has this field.
    unsafe { field.get(object.as_raw().payload.v_obj) }.ok()
}
