use kernpack::{TensorView, packed_func};

struct Color;

#[packed_func(parallel)]
fn elements(x: &Color, y: &mut bool) {
    let _ = (x, y);
}

#[packed_func(parallel)]
fn by_value(x: &mut f32, table: TensorView<f32>, name: String) {
    let _ = (x, table, name);
}

#[packed_func(parallel)]
fn results(x: &f32) -> Vec<f32> {
    vec![*x]
}

fn main() {}
