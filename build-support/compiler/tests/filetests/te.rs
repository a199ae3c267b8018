//! The job `schedule`: a kernel of tensor expressions, scheduled by rules for a target.
//!
//! The first line is the head of a function: the inputs and scalars. Each further line is a tensor:
//! its name, shape and expression, with the axes `i`, `j`, `k`, ..; the last one is the output.
//!
//! ```text
//! func product(a: f32[m, 64], b: f32[64, n])
//! c[m, n] = sum over r < 64: a[i, r] * b[r, j]
//! out[m, n] = max(c[i, j], 0.0)
//! ```

use kernpack_compiler::ir::{Expr, IrModule, IterVar, Tensor, Var};
use kernpack_compiler::te::{compute_dyn, reduce_axis, reduce_max, sum};
use kernpack_compiler::text::{self, Scope};
use kernpack_compiler::{Kernel, PassContext, TargetDescription};

fn message(error: impl core::fmt::Display) -> String {
    error.to_string()
}

fn target_of(name: &str) -> Result<TargetDescription, String> {
    let targets = [
        TargetDescription::x86_64(),
        TargetDescription::x86_64_v3(),
        TargetDescription::x86_64_v4(),
        TargetDescription::aarch64(),
    ];
    let mut named = targets.into_iter();
    named.find(|target| target.name.as_str() == name).ok_or_else(|| format!("unknown target `{name}`"))
}

fn head(line: &str, scope: &Scope) -> Result<IrModule, String> {
    text::parse_with(&format!("{line} {{\n}}\n"), scope).map_err(message)
}

/// The expression of a tensor, with the axes in scope.
fn value(text: &str, scope: &Scope) -> Result<Expr, String> {
    let is_reduction = text.starts_with("sum over ") || text.starts_with("max over ");
    let Some((over, source)) = text.split_once(": ").filter(|_| is_reduction) else {
        return text::parse_expr(text, scope).map_err(message);
    };
    let (mut scope, mut axes) = (scope.clone(), Vec::new());
    for axis in over["sum over ".len()..].split(", ") {
        let (name, extent) = axis.split_once(" < ").ok_or_else(|| format!("`{axis}` is not `axis < extent`"))?;
        let axis: IterVar = reduce_axis(0, text::parse_expr(extent, &scope).map_err(message)?, name);
        scope = scope.var(&axis.var);
        axes.push(axis);
    }
    let source = text::parse_expr(source, &scope).map_err(message)?;
    Ok(if text.starts_with("sum") { sum(source, axes) } else { reduce_max(source, axes) })
}

/// A tensor from `name[shape] = expression`.
fn tensor(line: &str, scope: &Scope) -> Result<Tensor, String> {
    let (place, expr) = line.split_once(" = ").ok_or_else(|| format!("`{line}` is not `name[shape] = expression`"))?;
    let (name, shape) = place.split_once('[').ok_or_else(|| format!("`{place}` has no shape"))?;
    let of_shape = head(&format!("func shape({name}: f32[{shape})"), scope)?;
    let param = of_shape.functions.iter().next().and_then(|function| function.params.iter().next());
    let buffer = param.and_then(|param| param.buffer.clone()).ok_or_else(|| format!("`{place}` has no shape"))?;
    let mut problem = None;
    let tensor = compute_dyn(&buffer.shape, |axes: &[IterVar]| {
        let scope = axes.iter().fold(scope.clone(), |scope, axis| scope.var(&axis.var));
        value(expr, &scope).unwrap_or_else(|error| {
            problem = Some(error);
            Expr::int(0)
        })
    });
    problem.map_or_else(|| Ok(tensor.named(name)), Err)
}

/// Schedules the kernel: returns the rules that were applied, and the loops.
pub(super) fn schedule(program: &str, target: &str) -> Result<String, String> {
    let target = target_of(target)?;
    let mut lines = program.lines().filter(|line| !line.is_empty() && !line.starts_with("//"));
    let inputs = head(lines.next().ok_or("expected the head of a function")?, &Scope::new())?;
    let function = inputs.functions.iter().next().ok_or("expected the head of a function")?;
    let (mut kernel, mut scope) = (Kernel::new(function.name.as_str()), Scope::new());
    for param in function.params.iter() {
        let Some(buffer) = &param.buffer else {
            scope = scope.var(&kernel.scalar(param.var.name(), param.var.dtype()));
            continue;
        };
        let sizes = buffer.shape.iter().filter_map(|extent| Var::of(&extent));
        scope = sizes.fold(scope, |scope, size| scope.var(&size));
        scope = scope.tensor(&kernel.input(buffer.name.as_str(), &buffer.shape, buffer.dtype));
    }
    let mut last = None;
    for line in lines {
        let tensor = tensor(line, &scope)?;
        scope = scope.tensor(&tensor);
        last = Some(tensor);
    }
    let last = last.ok_or("expected a tensor that is computed")?;
    kernel.output(&last.name(), last);
    kernel.check().map_err(message)?;
    let context = PassContext::default();
    let nest = kernel.scheduled(&target, &context).map_err(message)?.loop_nest();
    let applied = context.take_notes().into_iter().filter(|note| !note.contains(" declined: "));
    Ok(applied.map(|note| note + "\n").collect::<String>() + &nest)
}
