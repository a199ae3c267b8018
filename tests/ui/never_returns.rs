use kernpack::packed_func;

#[packed_func]
fn stop() -> ! {
    panic!()
}

fn main() {}
