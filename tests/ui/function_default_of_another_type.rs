use kernpack::packed_func;

#[packed_func]
fn scaled(x: f64, #[default("0.5")] gain: f64) -> f64 {
    x * gain
}

fn main() {}
