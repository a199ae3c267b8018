use kernpack::packed_func;

#[packed_func]
fn keep(text: &'static str) -> i64 {
    text.len() as i64
}

fn main() {}
