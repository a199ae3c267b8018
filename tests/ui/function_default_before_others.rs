use kernpack::packed_func;

#[packed_func]
fn scaled(x: f64, #[default(0.5)] gain: f64, offset: f64, mode: Option<i64>) -> f64 {
    x * gain + offset + mode.map_or(0.0, |mode| mode as f64)
}

fn main() {}
