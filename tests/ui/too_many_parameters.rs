#![allow(unused_variables)]

use kernpack::packed_func;

#[packed_func]
#[rustfmt::skip]
fn wide(a0: i64, a1: i64, a2: i64, a3: i64, a4: i64, a5: i64, a6: i64, a7: i64, a8: i64, a9: i64, a10: i64, a11: i64, a12: i64, a13: i64, a14: i64, a15: i64, a16: i64, a17: i64, a18: i64, a19: i64, a20: i64, a21: i64, a22: i64, a23: i64, a24: i64, a25: i64, a26: i64, a27: i64, a28: i64, a29: i64, a30: i64, a31: i64, a32: i64, a33: i64, a34: i64, a35: i64, a36: i64, a37: i64, a38: i64, a39: i64, a40: i64, a41: i64, a42: i64, a43: i64, a44: i64, a45: i64, a46: i64, a47: i64, a48: i64, a49: i64, a50: i64, a51: i64, a52: i64, a53: i64, a54: i64, a55: i64, a56: i64, a57: i64, a58: i64, a59: i64, a60: i64, a61: i64, a62: i64, a63: i64, a64: i64) -> i64 {
    a0
}

fn main() {}
