//! Calls in expressions: builtins and math functions.

use kernpack::DataType;

use super::body::Body;
use super::vocabulary::Vectors;
use super::{scalar, vector};
use crate::error::{Result, fail, require};
use crate::ir::builtin;
use crate::ir::{BinaryOp, CallKind, DataTypeExt, Expr, ExprNode, I64};

impl Body<'_> {
    /// Writes a call.
    pub(crate) fn call(&mut self, kind: CallKind, name: &str, args: &[Expr], dtype: DataType) -> Result<String> {
        let (language, kernel) = (self.unit.words.name, &self.function);
        match kind {
            CallKind::Builtin => self.builtin(name, args, dtype),
            CallKind::LlvmIntrinsic => self.intrinsic(name, args, dtype),
            _ if self.unit.words.is_host => self.host_call(kind, name, args, dtype),
            CallKind::Extern | CallKind::PureExtern => {
                fail!(Target, "{language}: kernel `{kernel}` calls the C function `{name}`, which is code of the host")
            }
            CallKind::Packed => {
                fail!(
                    Target,
                    "{language}: kernel `{kernel}` calls the packed function `{name}`, which is code of the host"
                )
            }
            CallKind::Function => {
                fail!(Target, "{language}: kernel `{kernel}` calls function `{name}`: device functions are not printed")
            }
        }
    }

    /// Writes the LLVM intrinsics that are builtins under another name.
    fn intrinsic(&mut self, name: &str, args: &[Expr], dtype: DataType) -> Result<String> {
        let builtin = match name.strip_prefix("llvm.").unwrap_or(name) {
            "fabs" | "abs" => "abs",
            "fmuladd" => {
                let [a, b, c] = args else { fail!(Type, "`{name}` takes 3 arguments, got {}", args.len()) };
                return self.value(&(a * b + c));
            }
            "rint" | "nearbyint" | "roundeven" => "round",
            "minimum" => "nanmin",
            "maximum" => "nanmax",
            "ctpop" => "popcount",
            "ctlz" => "clz",
            "cttz" => "ctz",
            other => other,
        };
        // The flag for an undefined result of 0 is irrelevant here.
        let args = if matches!(builtin, "clz" | "ctz" | "abs") { &args[..args.len().min(1)] } else { args };
        require!(
            builtin::math_arity(builtin) == Some(args.len()) || matches!(builtin, "popcount" | "clz" | "ctz"),
            Target,
            "{} has no intrinsic `{name}`",
            self.unit.words.name
        );
        self.builtin(builtin, args, dtype)
    }

    /// Writes several arguments.
    pub(crate) fn values(&mut self, args: &[Expr]) -> Result<Vec<String>> {
        args.iter().map(|arg| self.value(arg)).collect()
    }

    fn builtin(&mut self, name: &str, args: &[Expr], dtype: DataType) -> Result<String> {
        let words = self.unit.words;
        if words.is_host
            && let Some(text) = self.host_builtin(name, args, dtype)?
        {
            return Ok(text);
        }
        let Some(first) = args.first() else {
            fail!(Target, "{} has no builtin `{name}` in an expression", words.name)
        };
        match name {
            builtin::LIKELY => {
                let condition = self.value(first)?;
                Ok(match words.is_host && dtype.lanes() <= 1 {
                    true => format!("KP_LIKELY({condition})"),
                    false => condition,
                })
            }
            builtin::REINTERPRET => self.reinterpret(first, dtype),
            builtin::DOT => {
                let [sums, a, b] = args else { fail!(Type, "`dot` takes 3 arguments, got {}", args.len()) };
                match words.vectors {
                    Vectors::Extension => {
                        let texts = self.values(args)?;
                        vector::dot(self.unit, [sums.dtype(), a.dtype(), b.dtype()], &texts)
                    }
                    _ => self.dot(sums, a, b),
                }
            }
            builtin::ANY_LANE => {
                let text = self.value(first)?;
                let lanes = usize::from(first.lanes());
                if lanes == 1 {
                    return Ok(text);
                }
                if words.vectors == Vectors::Extension {
                    return vector::any(self.unit, first.dtype(), &text);
                }
                let name = self.bind("m", first.dtype(), &text)?;
                let any: Vec<String> = (0..lanes).map(|lane| self.unit.lane(first.dtype(), &name, lane)).collect();
                Ok(format!("({})", any.join(" || ")))
            }
            "vectorlow" | "vectorhigh" | "vectorcombine" => {
                let source = if name == "vectorcombine" { args.to_vec() } else { vec![first.clone()] };
                let start = if name == "vectorhigh" { i64::from(first.lanes()) / 2 } else { 0 };
                let indices: kernpack::Array<i64> = (start..start + i64::from(dtype.lanes())).collect();
                let shuffle = Expr::from_node(ExprNode::Shuffle { vectors: source.into_iter().collect(), indices });
                self.value(&shuffle)
            }
            _ if name.starts_with("warp_shuffle") && !words.is_host => self.warp_shuffle(name, args),
            _ if builtin::effect_of_builtin(name) == Some(builtin::Effect::Pure)
                && !first.dtype().is_handle()
                && !name.starts_with("warp_") =>
            {
                let texts = self.values(args)?;
                let params: Vec<DataType> = args.iter().map(|arg| arg.dtype()).collect();
                self.unit.check(params[0])?;
                if dtype.lanes() > 1 {
                    return vector::builtin(self.unit, name, dtype, &params, &texts);
                }
                scalar::builtin(self.unit, name, params[0], &texts)
            }
            _ => fail!(Target, "{} has no builtin `{name}`, in `{}`", words.name, self.function),
        }
    }

    fn reinterpret(&mut self, value: &Expr, dtype: DataType) -> Result<String> {
        let from = value.dtype();
        let bits = |dtype: DataType| usize::from(dtype.bits()) * usize::from(dtype.lanes());
        require!(
            bits(from) == bits(dtype),
            Type,
            "reinterpret of {} as {}: they have different numbers of bits",
            from.short_name(),
            dtype.short_name()
        );
        self.unit.check(from)?;
        self.unit.check(dtype)?;
        let text = self.value(value)?;
        match (from.is_handle(), dtype.is_handle()) {
            _ if from.lanes() > 1 || dtype.lanes() > 1 => vector::reinterpret(self.unit, from, dtype, &text),
            (false, true) => {
                let bits = scalar::reinterpret(self.unit, from, I64, &text)?;
                scalar::cast(self.unit, I64, dtype, &bits)
            }
            (true, false) => {
                let bits = scalar::cast(self.unit, from, I64, &text)?;
                scalar::reinterpret(self.unit, I64, dtype, &bits)
            }
            _ => scalar::reinterpret(self.unit, from, dtype, &text),
        }
    }

    /// Adds to each sum the products of a group of adjacent lanes of two vectors. Sums wrap.
    fn dot(&mut self, sums: &Expr, a: &Expr, b: &Expr) -> Result<String> {
        let types = [sums.dtype(), a.dtype(), b.dtype()];
        let mut names = Vec::new();
        for (part, wanted) in [sums, a, b].into_iter().zip(["sum", "x", "y"]) {
            let text = self.value(part)?;
            names.push(self.bind(wanted, part.dtype(), &text)?);
        }
        let (lanes, group) = (usize::from(types[0].lanes()), usize::from(types[1].lanes() / types[0].lanes().max(1)));
        let element = types[0].element();
        let mut results = Vec::new();
        for lane in 0..lanes {
            let mut sum = self.unit.lane(types[0], &names[0], lane);
            for part in lane * group..(lane + 1) * group {
                let mut factors = Vec::new();
                for operand in [1, 2] {
                    let factor = self.unit.lane(types[operand], &names[operand], part);
                    factors.push(scalar::cast(self.unit, types[operand].element(), element, &factor)?);
                }
                let product = scalar::binary(self.unit, BinaryOp::Mul, element, &factors[0], &factors[1], false)?;
                sum = scalar::binary(self.unit, BinaryOp::Add, element, &sum, &product, false)?;
            }
            results.push(self.bind("sum", element, &sum)?);
        }
        if lanes == 1 {
            return Ok(results.swap_remove(0));
        }
        self.unit.vector(types[0], &results)
    }

    /// An exchange between the lanes of a warp: `(mask, value, lane, width, warp size)`.
    fn warp_shuffle(&mut self, name: &str, args: &[Expr]) -> Result<String> {
        let function = match name {
            "warp_shuffle" => "__shfl_sync",
            "warp_shuffle_up" => "__shfl_up_sync",
            "warp_shuffle_down" => "__shfl_down_sync",
            _ => "__shfl_xor_sync",
        };
        if self.unit.words.has_vectors() {
            fail!(
                Target,
                "{} has no exchange between the lanes of a warp (`{name}` in kernel `{}`): lower with the option `warp_size` = 1",
                self.unit.words.name,
                self.function
            )
        }
        let [mask, value, lane, width, _] = args else { fail!(Type, "`{name}` takes 5 arguments, got {}", args.len()) };
        let bits = value.dtype().bits();
        require!(
            bits >= 32 && value.dtype().is_scalar(),
            Target,
            "{} has no exchange of {} between lanes",
            self.unit.words.name,
            value.dtype().short_name()
        );
        let texts = [mask, value, lane, width].map(|arg| self.value(arg));
        let [mask, value, lane, width] = texts;
        Ok(format!("{function}((unsigned int)({}), {}, {}, {})", mask?, value?, lane?, width?))
    }
}
