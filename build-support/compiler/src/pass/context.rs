//! The context of a pipeline run.

use std::sync::{Mutex, PoisonError};

use kernpack::{Array, Field, ObjRef, Object, Str, object_methods};

use crate::ir::handle;

/// Options of a pipeline; those of TVM v0.5's `BuildConfig` have its names and defaults unless
/// noted otherwise.
#[derive(Object, Clone, Debug)]
#[object(key = "kernpack.PassOptions")]
#[repr(C)]
pub struct PassOptions {
    /// The maximum number of steps in total up to which serial loops are unrolled.
    #[field(default = 0, kw_only)]
    pub auto_unroll_max_step: i64,
    /// The maximum nesting depth of serial loops that are unrolled.
    #[field(default = 8, kw_only)]
    pub auto_unroll_max_depth: i64,
    /// The extent up to which serial loops are unrolled regardless of their body.
    #[field(default = 0, kw_only)]
    pub auto_unroll_max_extent: i64,
    /// True if loops of kind `Unrolled` are expanded; otherwise the code generator is instructed to
    /// unroll them.
    #[field(default = true, kw_only)]
    pub unroll_explicit: bool,
    /// True if loops with constant extents are also partitioned (v0.5: false).
    #[field(default = true, kw_only)]
    pub partition_const_loop: bool,
    /// True if arguments do not overlap.
    #[field(default = true, kw_only)]
    pub restricted_func: bool,
    /// The factor by which a double-buffered loop is split (v0.5: 1).
    #[field(default = 2, kw_only)]
    pub double_buffer_split_loop: i64,
    /// The number of threads of a device warp, which exchange values without memory; 1 if there are
    /// no warps.
    #[field(default = 32, kw_only)]
    pub warp_size: i64,
    /// True if loads and stores are checked at run time, by the pass `InstrumentBoundCheckers`.
    #[field(default = false, kw_only)]
    pub instrument_bound_checkers: bool,
    /// The alignment of arguments, in bytes.
    #[field(default = 64, kw_only)]
    pub data_alignment: i64,
    /// The `offset_factor` of arguments.
    #[field(default = 0, kw_only)]
    pub offset_factor: i64,
    /// True if selects are not rewritten.
    #[field(default = false, kw_only)]
    pub disable_select_rewriting: bool,
    /// True if the verifier runs after each pass, which is the default in builds with debug
    /// assertions.
    #[field(default = cfg!(debug_assertions), kw_only)]
    pub verify: bool,
    /// True if the program's text is kept after each pass, for [`PassContext::take_dumps`].
    #[field(default = false, kw_only)]
    pub dump: bool,
}

impl Default for PassOptions {
    fn default() -> Self {
        Self {
            auto_unroll_max_step: 0,
            auto_unroll_max_depth: 8,
            auto_unroll_max_extent: 0,
            unroll_explicit: true,
            partition_const_loop: true,
            restricted_func: true,
            double_buffer_split_loop: 2,
            warp_size: 32,
            instrument_bound_checkers: false,
            data_alignment: 64,
            offset_factor: 0,
            disable_select_rewriting: false,
            verify: cfg!(debug_assertions),
            dump: false,
        }
    }
}

handle! {
    /// A reference to the context of a pipeline.
    PassContext => PassContextNode
}

/// Options, and the output of passes for the user: notes and dumps.
#[derive(Object)]
#[object(key = "kernpack.PassContext", structural = "singleton")]
#[repr(C)]
pub struct PassContextNode {
    /// The options.
    #[field(default = ObjRef::new(PassOptions::default()))]
    pub options: ObjRef<PassOptions>,
    /// A pipeline that replaces the usual one: names of passes, or functions; if empty, the usual
    /// pipeline.
    #[field(writable, default = Field::new(Array::default()))]
    pub pipeline: Field<Array<kernpack::Any>>,
    /// Rules that replace the usual ones: names, functions, or arrays of a name and a function, as
    /// `kernpack.rules.insert` returns them; if empty, the usual rules.
    #[field(writable, default = Field::new(Array::default()))]
    pub rules: Field<Array<kernpack::Any>>,
    #[field(skip, default = Mutex::default())]
    notes: Mutex<Vec<String>>,
    #[field(skip, default = Mutex::default())]
    warnings: Mutex<Vec<String>>,
    #[field(skip, default = Mutex::default())]
    dumps: Mutex<Vec<(Str, String)>>,
}

impl PassContext {
    /// Creates a context with these options.
    pub fn new(options: PassOptions) -> Self {
        Self::from_node(PassContextNode {
            options: ObjRef::new(options),
            pipeline: Field::new(Array::default()),
            rules: Field::new(Array::default()),
            notes: Mutex::default(),
            warnings: Mutex::default(),
            dumps: Mutex::default(),
        })
    }

    /// Adds a note that explains the code of a kernel: a rule that was applied or declined.
    pub fn note(&self, note: impl Into<String>) {
        add_once(&self.notes, note.into());
    }

    /// Adds a warning: a request that was not fulfilled, and the reason.
    pub fn warn(&self, warning: impl Into<String>) {
        add_once(&self.warnings, warning.into());
    }

    /// Keeps the text of a program after a pass.
    pub fn keep_dump(&self, pass: &str, text: String) {
        self.dumps.lock().unwrap_or_else(PoisonError::into_inner).push((pass.into(), text));
    }

    /// Takes the names of passes with the program after each, in order. If a pass failed, the last
    /// program is its input. Empty unless the option `dump` is set.
    pub fn take_dumps(&self) -> Vec<(Str, String)> {
        std::mem::take(&mut *self.dumps.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The methods of a context in other languages.
#[object_methods]
impl PassContextNode {
    /// Adds a note that explains the code of a kernel.
    #[method(name = "note")]
    fn leave_note(&self, note: &str) {
        add_once(&self.notes, note.to_owned());
    }

    /// Adds a warning: a request that was not fulfilled, and the reason.
    #[method(name = "warn")]
    fn leave_warning(&self, warning: &str) {
        add_once(&self.warnings, warning.to_owned());
    }

    /// Takes the notes collected so far.
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the warnings collected so far.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes pairs of a pass and the text of the program after it, in order. If a pass failed, the
    /// last program is its input. Empty unless the option `dump` is set.
    #[method(name = "take_dumps")]
    fn give_dumps(&self) -> Vec<Array<Str>> {
        let dumps = std::mem::take(&mut *self.dumps.lock().unwrap_or_else(PoisonError::into_inner));
        dumps.into_iter().map(|(pass, text)| [pass, text.into()].into_iter().collect()).collect()
    }
}

fn add_once(list: &Mutex<Vec<String>>, text: String) {
    let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
    if !list.contains(&text) {
        list.push(text);
    }
}

impl Default for PassContext {
    fn default() -> Self {
        Self::new(PassOptions::default())
    }
}
