use kernpack::{TensorView, TensorViewMut, packed_func};

#[packed_func]
fn copy(from: TensorView<u8>, mut to: TensorViewMut<u8>) {
    let _ = (&from, &mut to);
}

#[packed_func]
fn blend<'a>(a: TensorView<'a, f32>, b: TensorView<'a, f32>, out: TensorViewMut<'_, f32>) {
    let _ = (a, b, out);
}

fn main() {}
