//! Conversions between floats and integers, and `fma` of small floats: C code computes the value
//! that is rounded once, or saturated.

use std::fmt::Write;

use kernpack_compiler::ir::{BF16, DataType, DataTypeExt, F16};

use crate::compile::{WAYS, function, memory, numbers, run};
use crate::rounding::{Fused, Row, inputs};

/// Numbers of lanes: GNU C has vectors of 4, but not of 3.
const LANES: [u16; 3] = [1, 4, 3];

/// Prints the bits of elements of `unsigned` types.
const HEAD: &str = "#include <inttypes.h>\n#include <stdint.h>\n#include <stdio.h>\n\
    #define SHOW(a, n) for (int i = 0; i < (n); ++i) printf(\"%\" PRId64 \"\\n\", (int64_t)(a)[i])\n\
    static uint64_t memory[1 << 16];\n";

fn array(dtype: DataType, name: &str, bits: &[u64]) -> String {
    let numbers: Vec<String> = bits.iter().map(|bits| format!("{bits}u")).collect();
    format!("static uint{}_t {name}[] = {{{}}};\n", dtype.bits(), numbers.join(", "))
}

/// Statements that print the given number of elements of a type in `memory`.
fn show(dtype: DataType, count: usize) -> String {
    format!("SHOW((uint{}_t*)memory, {count});", dtype.bits())
}

/// The bits that a program prints, in parts of these lengths.
fn parts(text: &str, lengths: impl IntoIterator<Item = usize>) -> Vec<Vec<u64>> {
    let mut numbers = numbers(text).into_iter().map(|number| number as u64);
    let parts = lengths.into_iter().map(|length| numbers.by_ref().take(length).collect()).collect();
    assert!(numbers.next().is_none());
    parts
}

#[test]
fn casts_round_once_and_saturate() {
    let rows = Row::all(LANES);
    let (mut functions, mut main, mut calls) = (Vec::new(), HEAD.to_owned(), String::new());
    let mut types: Vec<DataType> = rows.iter().map(|row| row.from).collect();
    types.sort_by_key(|dtype| dtype.short_name());
    types.dedup();
    for dtype in types {
        main.push_str(&array(dtype, &format!("x_{}", dtype.short_name()), &inputs(dtype)));
    }
    for row in &rows {
        let (name, count) = (row.name(), inputs(row.from).len());
        let ([a, out], body) = row.program(count);
        functions.push(function(&name, [memory(&a), memory(&out)], body));
        writeln!(main, "void {name}(void*, void*);").unwrap();
        writeln!(calls, "  {name}(x_{}, memory); {}", row.from.short_name(), show(row.to, count)).unwrap();
    }
    write!(main, "int main(void) {{\n{calls}  return 0;\n}}\n").unwrap();
    for way in WAYS {
        let text = run("casts", *way, &functions, &main);
        for (row, found) in rows.iter().zip(parts(&text, rows.iter().map(|row| inputs(row.from).len()))) {
            row.check(way.0, &inputs(row.from), &found);
        }
    }
}

#[test]
fn fused_products_of_small_floats_round_once() {
    let cases = [F16, BF16].map(|dtype| (dtype, Fused::of(dtype)));
    let (mut functions, mut main, mut calls) = (Vec::new(), HEAD.to_owned(), String::new());
    for (dtype, fused) in &cases {
        let short = dtype.short_name();
        for (name, column) in ["a", "b", "c"].iter().zip(fused.columns()) {
            main.push_str(&array(*dtype, &format!("{name}_{short}"), &column));
        }
        for lanes in LANES {
            let (buffers, body) = fused.program(lanes);
            let name = format!("fused_{short}_{lanes}");
            functions.push(function(&name, buffers.each_ref().map(memory), body));
            writeln!(main, "void {name}(void*, void*, void*, void*);").unwrap();
            let shown = show(*dtype, fused.rows.len());
            writeln!(calls, "  {name}(a_{short}, b_{short}, c_{short}, memory); {shown}").unwrap();
        }
    }
    write!(main, "int main(void) {{\n{calls}  return 0;\n}}\n").unwrap();
    for way in WAYS {
        let text = run("fused", *way, &functions, &main);
        let each: Vec<&Fused> = cases.iter().flat_map(|(_, fused)| LANES.map(|_| fused)).collect();
        for (fused, found) in each.iter().zip(parts(&text, each.iter().map(|fused| fused.rows.len()))) {
            fused.check(way.0, &found);
        }
    }
}
