use kernpack::packed_func;

struct Pixel;

#[packed_func]
fn black() -> Pixel {
    Pixel
}

#[packed_func]
fn row() -> Vec<Pixel> {
    Vec::new()
}

fn main() {}
