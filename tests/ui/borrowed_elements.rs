use kernpack::{TensorView, packed_func};

#[packed_func]
fn texts(names: Vec<&str>) -> usize {
    names.len()
}

#[packed_func]
fn tensors(rows: Vec<TensorView<f32>>) -> usize {
    rows.len()
}

fn main() {}
