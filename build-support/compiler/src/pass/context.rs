//! What a pipeline is run with.

use std::cell::RefCell;

/// Options of a pipeline, with the defaults of TVM v0.5's `BuildConfig` where the names are its.
#[derive(Clone, Debug)]
pub struct PassOptions {
    /// Serial loops are unrolled up to this many steps in all.
    pub auto_unroll_max_step: i64,
    /// .. in nests up to this depth.
    pub auto_unroll_max_depth: i64,
    /// .. or up to this extent, whatever is in them.
    pub auto_unroll_max_extent: i64,
    /// Loops of kind `Unrolled` are written out; else the code generator is told to.
    pub unroll_explicit: bool,
    /// Loops with constant extent are partitioned, too.
    pub partition_const_loop: bool,
    /// Arguments do not overlap.
    pub restricted_func: bool,
    /// Parts that a double-buffered loop is split into.
    pub double_buffer_split_loop: i64,
    /// Loads and stores are checked at run time.
    pub instrument_bound_checkers: bool,
    /// Alignment of arguments in bytes.
    pub data_alignment: i64,
    /// `offset_factor` of arguments.
    pub offset_factor: i64,
    /// Selects stay selects.
    pub disable_select_rewriting: bool,
    /// The verifier runs after each pass.
    pub verify: bool,
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
            instrument_bound_checkers: false,
            data_alignment: 64,
            offset_factor: 0,
            disable_select_rewriting: false,
            verify: cfg!(debug_assertions),
        }
    }
}

/// Options, and the notes for the user that passes leave.
#[derive(Default, Debug)]
pub struct PassContext {
    /// Options.
    pub options: PassOptions,
    notes: RefCell<Vec<String>>,
}

impl PassContext {
    /// A context with these options.
    pub fn new(options: PassOptions) -> Self {
        Self { options, notes: RefCell::default() }
    }

    /// Leaves a note: something that was asked for was not done, and why.
    pub fn note(&self, note: impl Into<String>) {
        self.notes.borrow_mut().push(note.into());
    }

    /// The notes so far, which are given up.
    pub fn take_notes(&self) -> Vec<String> {
        self.notes.take()
    }
}
