use kernpack::packed_func;

#[packed_func]
async fn fetch(id: i64) -> i64 {
    id
}

fn main() {}
