use kernpack::packed_func;

#[packed_func]
fn show(value: &dyn std::fmt::Display) -> String {
    value.to_string()
}

fn main() {}
