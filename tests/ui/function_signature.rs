use std::collections::HashMap;

use kernpack::packed_func;

#[packed_func(signature = "(data, key=None)")]
fn lacks_a_parameter(data: i64, key: Option<i64>, level: i64) -> i64 {
    data + key.unwrap_or(level)
}

#[packed_func(signature = "(key, data)")]
fn another_order(data: i64, key: i64) -> i64 {
    data + key
}

#[packed_func(signature = "(data, *rest, **options)")]
fn other_types(data: i64, rest: i64, options: HashMap<i64, i64>) -> i64 {
    data + rest + options.len() as i64
}

#[packed_func(signature = "(data, *, key=None)")]
fn default_of_another_type(data: i64, key: i64) -> i64 {
    data + key
}

#[packed_func(signature = "(data, level)")]
fn default_that_is_not_shown(data: i64, #[default(3)] level: i64) -> i64 {
    data + level
}

#[packed_func(signature = "(data: int, level: int) -> int")]
fn annotated(data: i64, level: i64) -> i64 {
    data + level
}

#[packed_func(signature = "data")]
fn without_parentheses(data: i64) -> i64 {
    data
}

fn main() {}
