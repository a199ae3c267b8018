use kernpack::{Tensor, packed_func};

#[packed_func(parallel)]
fn no_tensor(count: i64, name: &str) -> f32 {
    count as f32 + name.len() as f32
}

#[packed_func(parallel)]
fn no_result(x: &f32) {
    let _ = x;
}

#[packed_func(parallel)]
fn shared_output(x: &mut f32, total: &mut Tensor) {
    let _ = (x, total);
}

#[packed_func(grain = 8)]
fn grain_alone(x: i64) -> i64 {
    x
}

#[packed_func(parallel = true, grain = 0)]
fn options(x: &mut f32) {
    *x += 1.0;
}

fn main() {}
