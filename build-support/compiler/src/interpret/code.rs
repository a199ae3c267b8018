//! What a function is translated to before it runs: operations on registers, so that threads of a device can be stopped anywhere and continued.

use std::rc::Rc;

use super::number::Lane;
use crate::ir::{BinaryOp, CompareOp, DataType, DataTypeExt, LogicOp, Stmt, Var};

/// A register of a frame.
pub(super) type Reg = usize;

/// What a register holds; one word for each lane.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// Nothing yet.
    Unset,
    /// A scalar.
    One(u64),
    /// A vector.
    Many(Rc<[u64]>),
}

/// Memory that a load or store names.
#[derive(Clone)]
pub(super) struct Place {
    /// The data pointer.
    pub(super) data: Reg,
    /// First address and end of an alias, if it is one.
    pub(super) view: Option<Reg>,
    pub(super) name: Rc<str>,
    /// Type of an element, which may have lanes.
    pub(super) dtype: DataType,
    /// Bytes of a scalar element that needs no change between memory and a register; 0: another one.
    pub(super) plain: usize,
}

impl Place {
    pub(super) fn new(data: Reg, view: Option<Reg>, name: &str, dtype: DataType) -> Self {
        let signed = dtype.is_int() && dtype.bits() < 64;
        let plain = dtype.is_scalar() && !signed && !dtype.is_bool();
        Self { data, view, name: name.into(), dtype, plain: if plain { dtype.lane_bytes() } else { 0 } }
    }
}

/// Arithmetic that most programs do most of the time, on scalars.
#[derive(Clone, Copy)]
pub(super) enum Quick {
    /// 64-bit integers; `checked`: an overflow is an error.
    Index(BinaryOp, bool),
    /// Single precision.
    Single(BinaryOp),
    /// 64-bit integers, signed.
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

/// Which threads exchange or wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Group {
    Block,
    Warp,
}

/// Which lane of a warp a shuffle reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Exchange {
    Index,
    Up,
    Down,
    Xor,
}

/// A reduction across threads.
pub(super) struct AllReduce {
    /// The function of the module that combines: registers of the left side, of the right side, and of the results.
    pub(super) reducer: usize,
    pub(super) sources: Vec<Reg>,
    pub(super) condition: Reg,
    pub(super) results: Vec<Place>,
    /// Tags of the threads that are combined.
    pub(super) tags: Vec<String>,
}

/// Memory that a statement makes.
pub(super) struct Allocation {
    pub(super) data: Reg,
    pub(super) name: String,
    pub(super) dtype: DataType,
    pub(super) shape: Vec<Reg>,
    pub(super) alignment: i64,
    /// Who sees it, inside a kernel.
    pub(super) shared: Option<Group>,
}

/// One step.
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
    /// A value that an argument has and the program says.
    CheckArgument {
        given: Reg,
        expected: Reg,
        what: String,
    },
    Return {
        value: Option<Reg>,
    },
}

/// A variable that a statement sees, innermost first.
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

/// Where a parameter's values go.
pub(super) struct ParamCode {
    pub(super) name: String,
    pub(super) dtype: DataType,
    /// The scalar, or the handle.
    pub(super) var: Reg,
    pub(super) buffer: Option<BufferCode>,
}

/// Where the parts of a tensor go.
pub(super) struct BufferCode {
    pub(super) name: String,
    pub(super) data: Reg,
    pub(super) dtype: DataType,
    pub(super) alignment: i64,
    pub(super) output: bool,
    pub(super) shape: Vec<Reg>,
    /// Empty: the tensor has to be compact.
    pub(super) strides: Vec<Reg>,
    pub(super) offset: Reg,
}

/// A translated function.
pub(super) struct FunctionCode {
    pub(super) name: Rc<str>,
    pub(super) params: Vec<ParamCode>,
    pub(super) ret: Option<DataType>,
    pub(super) ops: Vec<Op>,
    /// For each operation, the statement that it is of.
    pub(super) origins: Vec<u32>,
    pub(super) registers: usize,
    /// Where the body begins; before it are checks of shapes.
    pub(super) body: usize,
    /// Extents of a kernel's threads, given at a launch.
    pub(super) launch: Vec<Axis>,
}
