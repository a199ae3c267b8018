use kernpack::Function;

fn main() {
    Function::from_fn(
        |_a: i64, _b: i64, _c: i64, _d: i64, _e: i64, _f: i64, _g: i64, _h: i64, _i: i64, _j: i64, _k: i64, _l: i64, _m: i64, _n: i64, _o: i64, _p: i64, _q: i64| 0i64,
    );
}
