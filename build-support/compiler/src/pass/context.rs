//! What a pipeline is run with.

use std::sync::{Mutex, PoisonError};

use kernpack::{Array, Field, ObjRef, Object, Str, object_methods};

use crate::ir::handle;

/// Options of a pipeline; those of TVM v0.5's `BuildConfig` have its names and defaults unless said otherwise.
#[derive(Object, Clone, Debug)]
#[object(key = "kernpack.PassOptions")]
#[repr(C)]
pub struct PassOptions {
    /// Serial loops are unrolled up to this many steps in all.
    #[field(default = 0, kw_only)]
    pub auto_unroll_max_step: i64,
    /// .. in nests up to this depth.
    #[field(default = 8, kw_only)]
    pub auto_unroll_max_depth: i64,
    /// .. or up to this extent, whatever is in them.
    #[field(default = 0, kw_only)]
    pub auto_unroll_max_extent: i64,
    /// Loops of kind `Unrolled` are written out; else the code generator is told to.
    #[field(default = true, kw_only)]
    pub unroll_explicit: bool,
    /// Loops with constant extent are partitioned, too (v0.5: false).
    #[field(default = true, kw_only)]
    pub partition_const_loop: bool,
    /// Arguments do not overlap.
    #[field(default = true, kw_only)]
    pub restricted_func: bool,
    /// Parts that a double-buffered loop is split into (v0.5: 1).
    #[field(default = 2, kw_only)]
    pub double_buffer_split_loop: i64,
    /// Threads of a warp of the device, which exchange values without memory; 1: there are no warps.
    #[field(default = 32, kw_only)]
    pub warp_size: i64,
    /// Loads and stores are checked at run time: pass `InstrumentBoundCheckers`.
    #[field(default = false, kw_only)]
    pub instrument_bound_checkers: bool,
    /// Alignment of arguments in bytes.
    #[field(default = 64, kw_only)]
    pub data_alignment: i64,
    /// `offset_factor` of arguments.
    #[field(default = 0, kw_only)]
    pub offset_factor: i64,
    /// Selects stay selects.
    #[field(default = false, kw_only)]
    pub disable_select_rewriting: bool,
    /// The verifier runs after each pass. By default in builds with debug assertions.
    #[field(default = cfg!(debug_assertions), kw_only)]
    pub verify: bool,
    /// The program's text is kept after each pass: [`PassContext::take_dumps`].
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

/// Options, and what passes leave for the user: notes and dumps.
#[derive(Object)]
#[object(key = "kernpack.PassContext", structural = "singleton")]
#[repr(C)]
pub struct PassContextNode {
    /// Options.
    #[field(default = ObjRef::new(PassOptions::default()))]
    pub options: ObjRef<PassOptions>,
    /// The pipeline in place of the usual one: names of passes, or functions; empty: the usual one.
    #[field(writable, default = Field::new(Array::default()))]
    pub pipeline: Field<Array<kernpack::Any>>,
    /// The rules in place of the usual ones: names, functions, or arrays of a name and a function, as `kernpack.rules.insert` makes them; empty: the usual ones.
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
    /// A context with these options.
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

    /// Leaves a note for people who ask why a kernel is as it is: what a rule did or declined.
    pub fn note(&self, note: impl Into<String>) {
        add_once(&self.notes, note.into());
    }

    /// Leaves a warning: something that was asked for was not done, and why.
    pub fn warn(&self, warning: impl Into<String>) {
        add_once(&self.warnings, warning.into());
    }

    /// Keeps the text of a program after a pass.
    pub fn keep_dump(&self, pass: &str, text: String) {
        self.dumps.lock().unwrap_or_else(PoisonError::into_inner).push((pass.into(), text));
    }

    /// Names of passes with the program after each, in order, which are given up. Empty unless the option `dump` is set.
    pub fn take_dumps(&self) -> Vec<(Str, String)> {
        std::mem::take(&mut *self.dumps.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What other languages have of a context, besides its fields.
#[object_methods]
impl PassContextNode {
    /// Leaves a note for people who ask why a kernel is as it is.
    #[method(name = "note")]
    fn leave_note(&self, note: &str) {
        add_once(&self.notes, note.to_owned());
    }

    /// Leaves a warning: something that was asked for was not done, and why.
    #[method(name = "warn")]
    fn leave_warning(&self, warning: &str) {
        add_once(&self.warnings, warning.to_owned());
    }

    /// The notes so far, which are given up.
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The warnings so far, which are given up.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Pairs of a pass and the text of the program after it, in order, which are given up. Empty unless the option `dump` is set.
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
