//! The code of a function before it runs: operations on registers, so that device threads can be
//! suspended and resumed anywhere.

use std::rc::Rc;

use super::number::Lane;
use crate::ir::{BinaryOp, CompareOp, DataType, DataTypeExt, LogicOp, Stmt, Var};

/// A register of a frame.
pub(super) type Reg = usize;

/// The value of a register; one word for each lane.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// No value yet.
    Unset,
    /// A scalar.
    One(u64),
    /// A vector.
    Many(Rc<[u64]>),
}

/// The memory that a load or store accesses.
#[derive(Clone)]
pub(super) struct Place {
    /// The data pointer.
    pub(super) data: Reg,
    /// The first address and the end of an alias, if it is one.
    pub(super) view: Option<Reg>,
    pub(super) name: Rc<str>,
    /// The type of an element, which may have lanes.
    pub(super) dtype: DataType,
    /// The size in bytes of a scalar element with the same representation in memory and registers;
    /// 0 for other elements.
    pub(super) plain: usize,
}

impl Place {
    pub(super) fn new(data: Reg, view: Option<Reg>, name: &str, dtype: DataType) -> Self {
        let signed = dtype.is_int() && dtype.bits() < 64;
        let plain = dtype.is_scalar() && !signed && !dtype.is_bool();
        Self { data, view, name: name.into(), dtype, plain: if plain { dtype.lane_bytes() } else { 0 } }
    }
}

/// The most frequent arithmetic, on scalars.
#[derive(Clone, Copy)]
pub(super) enum Quick {
    /// 64-bit integers; if the second field is true, overflow is an error.
    Index(BinaryOp, bool),
    /// Single precision.
    Single(BinaryOp),
    /// Signed 64-bit integers.
    Compare(CompareOp),
}

/// An argument of a call.
pub(super) enum Operand {
    Value(Reg, DataType),
    Text(String),
}

/// A dimension of a launch.
pub(super) struct Axis {
    pub(super) tag: String,
    pub(super) extent: Reg,
}

/// The threads that exchange values or wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Group {
    Block,
    Warp,
}

/// The way in which a shuffle selects the lane of a warp that it reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Exchange {
    Index,
    Up,
    Down,
    Xor,
}

/// A reduction across threads.
pub(super) struct AllReduce {
    /// The combining function of the module, with registers for the left side, the right side, and
    /// the results.
    pub(super) reducer: usize,
    pub(super) sources: Vec<Reg>,
    pub(super) condition: Reg,
    pub(super) results: Vec<Place>,
    /// The tags of the threads that are combined.
    pub(super) tags: Vec<String>,
}

/// Memory that a statement allocates.
pub(super) struct Allocation {
    pub(super) data: Reg,
    pub(super) name: String,
    pub(super) dtype: DataType,
    pub(super) shape: Vec<Reg>,
    pub(super) alignment: i64,
    /// The threads that share it, inside a kernel.
    pub(super) shared: Option<Group>,
}

/// An operation.
pub(super) enum Op {
    Constant {
        to: Reg,
        value: Value,
    },
    Copy {
        to: Reg,
        from: Reg,
    },
    Cast {
        to: Reg,
        from: Reg,
        old: DataType,
        new: DataType,
    },
    Binary {
        to: Reg,
        op: BinaryOp,
        lane: Lane,
        a: Reg,
        b: Reg,
        checked: bool,
        active: Option<Reg>,
    },
    Quick {
        to: Reg,
        quick: Quick,
        a: Reg,
        b: Reg,
    },
    Compare {
        to: Reg,
        op: CompareOp,
        lane: Lane,
        a: Reg,
        b: Reg,
    },
    Logic {
        to: Reg,
        op: LogicOp,
        a: Reg,
        b: Reg,
    },
    Not {
        to: Reg,
        from: Reg,
    },
    Any {
        to: Reg,
        from: Reg,
    },
    Select {
        to: Reg,
        condition: Reg,
        a: Reg,
        b: Reg,
    },
    Ramp {
        to: Reg,
        dtype: DataType,
        base: Reg,
        stride: Reg,
        lanes: u16,
        checked: bool,
    },
    Broadcast {
        to: Reg,
        from: Reg,
        lanes: u16,
    },
    Shuffle {
        to: Reg,
        vectors: Vec<Reg>,
        indices: Vec<usize>,
    },
    MakeTensor {
        to: Reg,
        data: Reg,
        dtype: DataType,
        shape: Vec<Reg>,
        strides: Vec<Reg>,
    },
    Address {
        to: Reg,
        place: Place,
        index: Reg,
    },
    Load {
        to: Reg,
        place: Place,
        index: Reg,
        mask: Option<Reg>,
    },
    Store {
        place: Place,
        index: Reg,
        value: Reg,
        mask: Option<Reg>,
    },
    Math {
        to: Reg,
        name: String,
        dtype: DataType,
        args: Vec<Reg>,
        active: Option<Reg>,
    },
    Builtin {
        to: Reg,
        name: String,
        dtype: DataType,
        args: Vec<Operand>,
    },
    Packed {
        to: Reg,
        name: String,
        dtype: DataType,
        args: Vec<Operand>,
    },
    Extern {
        to: Reg,
        name: String,
        dtype: DataType,
        args: Vec<Operand>,
    },
    Call {
        to: Reg,
        function: usize,
        args: Vec<Reg>,
    },
    Alloc(Box<Allocation>),
    Free {
        data: Reg,
    },
    View {
        to: Reg,
        place: Place,
        shape: Vec<Reg>,
        strides: Vec<Reg>,
        offset: Reg,
        alignment: i64,
    },
    Jump {
        target: usize,
    },
    JumpUnless {
        condition: Reg,
        target: usize,
    },
    /// Leaves the loop at `target` when `var` is at its end; checks the number of steps.
    Loop {
        var: Reg,
        end: Reg,
        lane: Lane,
        signed: bool,
        target: usize,
    },
    EnterParallel,
    NextParallel,
    LeaveParallel,
    Launch {
        axes: Vec<Axis>,
        end: usize,
    },
    ThreadIndex {
        to: Reg,
        tag: String,
    },
    Fork {
        var: Reg,
        extent: Reg,
        end: usize,
    },
    EndThread,
    Sync(Group),
    WarpShuffle {
        to: Reg,
        exchange: Exchange,
        mask: Reg,
        value: Reg,
        lane: Reg,
        width: Reg,
    },
    AllReduce(Box<AllReduce>),
    Assert {
        condition: Reg,
        kind: String,
        message: String,
    },
    Assume {
        condition: Reg,
    },
    /// Compares the value of an argument with that in the program.
    CheckArgument {
        given: Reg,
        expected: Reg,
        what: String,
    },
    Return {
        value: Option<Reg>,
    },
}

/// The variables in scope of a statement, innermost first.
pub(super) struct Visible {
    pub(super) var: Var,
    pub(super) reg: Reg,
    pub(super) outer: Option<Rc<Visible>>,
}

/// A statement, for messages.
pub(super) struct Origin {
    pub(super) stmt: Option<Stmt>,
    pub(super) function: Rc<str>,
    pub(super) visible: Option<Rc<Visible>>,
}

/// The registers of a parameter's values.
pub(super) struct ParamCode {
    pub(super) name: String,
    pub(super) dtype: DataType,
    /// The scalar, or the handle.
    pub(super) var: Reg,
    pub(super) buffer: Option<BufferCode>,
}

/// The registers of the parts of a tensor.
pub(super) struct BufferCode {
    pub(super) name: String,
    pub(super) data: Reg,
    pub(super) dtype: DataType,
    pub(super) alignment: i64,
    pub(super) output: bool,
    pub(super) shape: Vec<Reg>,
    /// If empty, the tensor has to be compact.
    pub(super) strides: Vec<Reg>,
    pub(super) offset: Reg,
}

/// A compiled function.
pub(super) struct FunctionCode {
    pub(super) name: Rc<str>,
    pub(super) params: Vec<ParamCode>,
    pub(super) ret: Option<DataType>,
    pub(super) ops: Vec<Op>,
    /// The statement of each operation.
    pub(super) origins: Vec<u32>,
    pub(super) registers: usize,
    /// The first operation of the body, after the checks of shapes.
    pub(super) body: usize,
    /// The extents of a kernel's threads, which a launch sets.
    pub(super) launch: Vec<Axis>,
}
