use kernpack::{TensorView, packed_func};

#[packed_func]
fn total(x: TensorView<f32>, #[default(x)] weights: TensorView<f32>) -> f32 {
    x.iter().zip(weights.iter()).map(|(x, weight)| x * weight).sum()
}

#[packed_func(parallel)]
fn saxpy(x: &f32, #[default(1.0)] a: f32, #[default(0.0)] y: &mut f32) {
    *y += a * x;
}

fn main() {}
