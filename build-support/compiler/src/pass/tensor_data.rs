//! The data of tensor arguments in `MakePackedAPI`: an address on the CPU; on a device a pointer,
//! which may be an object without arithmetic, and an offset.

use kernpack::Any;

use super::make_packed_api::{CPU, Entry, Tensor, is_null, struct_get};
use super::overlaps::address;
use crate::ir::builtin::{HANDLE_ADD_BYTE_OFFSET, StructField};
use crate::ir::{Buffer, CallKind, Expr, I32, I64, POINTER, Stmt, StmtNode, U64, Var};
use crate::text;

/// The kinds of devices whose data pointers are objects without arithmetic: OpenCL, Vulkan, Metal,
/// WebGPU.
const HANDLE_DEVICES: [i64; 4] = [4, 7, 8, 15];
/// The packed function that sets the device of launches whose arguments are pointers.
const SET_DEVICE: &str = "__tvm_set_device";
/// The attribute with the kind of the device that `LowerBuiltin` takes temporary memory from.
pub(super) const DEVICE_TYPE: &str = "device_context_type";
/// The attribute with the index of that device.
pub(super) const DEVICE_ID: &str = "device_context_id";

impl Entry {
    /// Binds the data pointer.
    pub(super) fn data(&mut self, mut tensor: Tensor) -> Tensor {
        let Tensor { index, pointer, buffer, .. } = &tensor;
        let name = buffer.name.to_string();
        let start = struct_get(pointer, 0, StructField::Data, POINTER);
        let offset = struct_get(pointer, 0, StructField::ByteOffset, U64).cast(I64);
        let data = if self.device_type == CPU {
            let mut offset = offset;
            match Var::of(&buffer.elem_offset) {
                // The pointer already refers to the first element, so the offset is 0.
                Some(var) if !self.known.contains_key(&var) => {
                    self.stmts.push(Stmt::bind(var.clone(), Expr::constant(var.dtype(), 0)));
                    self.known.insert(var, format!("{name}.byte_offset"));
                }
                _ => offset = offset - buffer.elem_offset.cast(I64) * (buffer.dtype.size() as i64),
            }
            Expr::builtin(HANDLE_ADD_BYTE_OFFSET, POINTER, [start, offset])
        } else {
            tensor.offset = Some(self.device_offset(*index, buffer, offset));
            start
        };
        let Tensor { index, buffer, size, .. } = &tensor;
        self.stmts.push(Stmt::from_node(StmtNode::Alias { buffer: buffer.clone(), data }));
        self.check(
            size.equals(0).or(is_null(&buffer.data).negated()),
            "ValueError",
            &format!("{name} data pointer is NULL"),
            Some((*index, "non-NULL data pointer")),
        );
        let alignment = self.alignment;
        if alignment > 1 {
            let place = match &tensor.offset {
                Some(offset) if self.has_handles() => offset.expr().clone(),
                _ => tensor.start(),
            };
            let aligned = (place & (alignment - 1)).equals(0);
            let expected = format!("data alignment={alignment} bytes");
            self.check(size.equals(0).or(aligned), "ValueError", "Misaligned Tensor data", Some((*index, &expected)));
        }
        tensor
    }

    /// Binds the offset of the first element on a device, whose pointers may be objects without
    /// arithmetic: kernels take the pointer and the offset.
    fn device_offset(&mut self, index: usize, buffer: &Buffer, offset: Expr) -> Var {
        let name = buffer.name.to_string();
        let offset = self.bind(&format!("{name}.byte_offset"), offset);
        let size = buffer.dtype.size() as i64;
        let problem = format!("Invalid {name}.byte_offset");
        let elements = offset.floor_div(size);
        match Var::of(&buffer.elem_offset) {
            Some(var) if !self.known.contains_key(&var) => {
                let whole = (&elements * size).equals(&offset);
                self.check(whole, "ValueError", &problem, Some((index, &format!("a multiple of {size} bytes"))));
                self.stmts.push(Stmt::bind(var.clone(), elements.cast(var.dtype())));
                self.known.insert(var, format!("{name}.byte_offset"));
            }
            _ => {
                let wanted = buffer.elem_offset.cast(I64) * size;
                let text = text::print(&wanted);
                self.check(offset.equals(wanted), "ValueError", &problem, Some((index, &text)));
            }
        }
        offset
    }

    /// Returns true if the data pointers of the device are objects without arithmetic.
    pub(super) fn has_handles(&self) -> bool {
        HANDLE_DEVICES.contains(&self.device_type)
    }

    /// Makes the tensors' device the current one for launches and temporary memory in the body.
    pub(super) fn on_device(&self, body: Stmt) -> Stmt {
        if self.device_type == CPU {
            return body;
        }
        let kind = Expr::constant(I32, self.device_type);
        let id = self.device_id.as_ref().map_or_else(|| Expr::constant(I32, 0), |(id, _)| id.expr().clone());
        let set = Expr::call(CallKind::Packed, SET_DEVICE, I32, [kind.clone(), id.clone()]);
        let body = Stmt::seq([Stmt::evaluate(set), body]);
        let body = Stmt::attr(DEVICE_ID, Any::from("device"), id, body);
        Stmt::attr(DEVICE_TYPE, Any::from("device"), kind, body)
    }
}

impl Tensor {
    /// The address of the first element; on a device with handles, of its memory.
    pub(super) fn start(&self) -> Expr {
        match &self.offset {
            Some(offset) => address(&self.buffer) + offset,
            None => address(&self.buffer),
        }
    }
}
