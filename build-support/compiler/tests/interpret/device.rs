//! Device threads.

use kernpack_compiler::interpret::{Arg, Block, Machine};
use kernpack_compiler::ir::{F32, I32};
use kernpack_compiler::text;

use crate::{fails, run_text};

fn blocks(extent: i64, threads: i64, body: &str) -> String {
    format!(
        "func f(a: mut f32[n]) {{
  attr thread_extent(axis b thread \"blockIdx.x\") = {extent} {{
    attr thread_extent(axis t thread \"threadIdx.x\") = {threads} {{
{body}
    }}
  }}
}}"
    )
}

fn numbers(count: usize) -> Block {
    Block::from_f32(&(0..count).map(|value| value as f32).collect::<Vec<_>>())
}

#[test]
fn blocks_do_not_share_without_an_order() {
    let own = blocks(4, 8, "a[b * 8 + t] = a[b * 8 + t] + 1.0");
    let a = numbers(32);
    run_text(&own, &[(&a).into()]).unwrap();
    assert_eq!(a.to_f32().unwrap()[31], 32.0);
    fails(
        run_text(&blocks(4, 8, "a[t] = 1.0"), &[numbers(32).into()]),
        &["block 1 writes what block 0 writes", "byte 0 of `a`"],
    );
    fails(
        run_text(&blocks(2, 8, "a[b * 8 + t] = a[b * 7 + t]"), &[numbers(32).into()]),
        &["block 1 reads what block 0 writes"],
    );
    fails(
        run_text(&blocks(1, 8, "a[t + 1] = a[t]"), &[numbers(32).into()]),
        &[
            "without a barrier between",
            "by thread (1, 0, 0) of block (0, 0, 0)",
            "the other access is in `a[t + 1] = a[t]`",
        ],
    );
}

/// A tree of sums in shared memory; the barrier at the end of the loop's body protects the next
/// iteration.
fn tree(barrier: &str) -> String {
    blocks(
        2,
        8,
        &format!(
            "alloc s: f32[8] @shared
             s[t] = a[b * 8 + t]
             for i in 0..3 {{
               {barrier}
               alloc x: f32[1] @local
               x[0] = 0.0
               if t < (4 >> i) {{ x[0] = s[t + (4 >> i)] }}
               {barrier}
               if t < (4 >> i) {{ s[t] = s[t] + x[0] }}
             }}
             if t == 0 {{ a[b * 8] = s[0] }}"
        ),
    )
}

#[test]
fn barriers_order_shared_memory() {
    let a = numbers(16);
    run_text(&tree("storage_sync::<i32>(\"shared\")"), &[(&a).into()]).unwrap();
    let sums = a.to_f32().unwrap();
    assert_eq!((sums[0], sums[8]), (28.0, 92.0));
    fails(
        run_text(&tree(""), &[numbers(16).into()]),
        &["`s` is read at byte 16, which has no value yet", "another thread may write it: is there a barrier between?"],
    );
}

#[test]
fn a_loop_needs_a_barrier_behind_its_reads() {
    let body = |last: &str| {
        format!(
            "alloc s: f32[8] @shared
             for i in 0..2 {{
               s[t] = a[t]
               storage_sync::<i32>(\"shared\")
               a[t] = s[7 - t]
               {last}
             }}"
        )
    };
    run_text(&blocks(1, 8, &body("storage_sync::<i32>(\"shared\")")), &[numbers(8).into()]).unwrap();
    let error = run_text(&blocks(1, 8, &body("")), &[numbers(8).into()]);
    fails(error, &["thread 4 reads what thread 3 writes without a barrier between", "`s`"]);
}

#[test]
fn warps_have_barriers_of_their_own() {
    // Lanes exchange in pairs; a barrier of the warp orders a warp, not the block.
    let body = |partner: &str| {
        format!(
            "alloc s: f32[64] @shared
             s[t] = a[t]
             storage_sync::<i32>(\"warp\")
             a[t] = s[{partner}]"
        )
    };
    let a = numbers(64);
    run_text(&blocks(1, 64, &body("t ^ 1")), &[(&a).into()]).unwrap();
    assert_eq!(a.to_f32().unwrap()[..4], [1.0, 0.0, 3.0, 2.0]);
    fails(run_text(&blocks(1, 64, &body("63 - t")), &[numbers(64).into()]), &["`s`", "without a barrier between"]);
    fails(run_text(&blocks(1, 64, &body("t ^ 32")), &[numbers(64).into()]), &["`s`", "without a barrier between"]);
}

#[test]
fn lanes_of_a_warp_exchange_values() {
    let butterfly = "alloc x: f32[1] @local
        x[0] = a[t]
        for i in 0..5 {
          let y = warp_shuffle_xor::<f32>(-1i32, x[0], 1i32 << (i as i32), 32i32, 32i32)
          x[0] = x[0] + y
        }
        a[t] = x[0]";
    let a = numbers(64);
    run_text(&blocks(1, 64, butterfly), &[(&a).into()]).unwrap();
    let sums = a.to_f32().unwrap();
    assert_eq!((sums[0], sums[31], sums[32]), (496.0, 496.0, 1520.0));
    for (call, expected) in [
        ("warp_shuffle_down::<f32>(-1i32, a[t], 1i32, 8i32, 32i32)", [1.0, 2.0, 7.0]),
        ("warp_shuffle_up::<f32>(-1i32, a[t], 1i32, 8i32, 32i32)", [0.0, 0.0, 6.0]),
        ("warp_shuffle::<f32>(-1i32, a[t], 3i32, 4i32, 32i32)", [3.0, 3.0, 7.0]),
    ] {
        let a = numbers(32);
        run_text(&blocks(1, 32, &format!("let y = {call}\nstorage_sync::<i32>(\"shared\")\na[t] = y")), &[(&a).into()])
            .unwrap();
        let found = a.to_f32().unwrap();
        assert_eq!([found[0], found[1], found[7]], expected, "{call}");
    }
    let partly = "if t < 4 { a[t] = warp_shuffle::<f32>(-1i32, a[t], 7i32, 32i32, 32i32) }";
    fails(
        run_text(&blocks(1, 8, partly), &[numbers(8).into()]),
        &["divergent shuffle", "the kernel is at its end for thread"],
    );
    let some =
        "if t < 4 { a[t] = warp_shuffle::<f32>(15i32, a[t], 3i32, 4i32, 32i32) }\nstorage_sync::<i32>(\"shared\")";
    let a = numbers(8);
    run_text(&blocks(1, 8, some), &[(&a).into()]).unwrap();
    assert_eq!(a.to_f32().unwrap(), [3.0, 3.0, 3.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    let masked = "a[t] = warp_shuffle::<f32>(15i32, a[t], 7i32, 32i32, 32i32)";
    fails(
        run_text(&blocks(1, 8, masked), &[numbers(8).into()]),
        &["lane 0 reads lane 7, and the mask 0xf leaves one of them out"],
    );
}

#[test]
fn reductions_go_across_threads() {
    let source = "func f(a: f32[4, 8], o: mut f32[4], k: mut i32[4]) {
      attr thread_extent(axis y thread \"threadIdx.y\") = 4 {
        attr thread_extent(axis x thread \"threadIdx.x\") = 8 {
          alloc all: f32[1] @local
          attr reduce_scope(reducer (p) (q) => (p + q) identity (0.0)) = 0 {
            thread_allreduce::<i32>(1, a[y * 8 + x], x < 7, all.data, x)
          }
          if x == 0 { o[y] = all[0] }
          alloc best: f32[1] @local
          alloc at: i32[1] @local
          attr reduce_scope(reducer (v, i: i32) (w, j: i32) => (max(v, w), select(v >= w, i, j)) identity (-inf, 0i32)) = 0 {
            thread_allreduce::<i32>(2, a[y * 8 + (x ^ 3)], x as i32, true, best.data, at.data, x)
          }
          if x == 0 { k[y] = at[0] }
        }
      }
    }";
    let (o, k) = (Block::uninit(F32, &[4]), Block::uninit(I32, &[4]));
    run_text(source, &[numbers(32).reshaped(&[4, 8]).into(), (&o).into(), (&k).into()]).unwrap();
    assert_eq!(o.to_f32().unwrap(), [21.0, 77.0, 133.0, 189.0]);
    assert_eq!(k.to_i64().unwrap(), [4; 4]);
}

#[test]
fn copies_of_a_thread_have_memory_of_their_own() {
    let source = "func f(a: mut f32[n]) {
      attr thread_extent(axis t thread \"threadIdx.x\") = 4 {
        attr virtual_thread(axis v thread \"vthread\") = 2 {
          alloc x: f32[1] @local
          x[0] = a[v * 4 + t]
          storage_sync::<i32>(\"shared\")
          a[v * 4 + (3 - t)] = x[0] + 10.0
        }
      }
    }";
    let a = numbers(8);
    run_text(source, &[(&a).into()]).unwrap();
    assert_eq!(a.to_f32().unwrap(), [13.0, 12.0, 11.0, 10.0, 17.0, 16.0, 15.0, 14.0]);
    let host = "func f(a: mut f32[n]) {\n attr virtual_thread(axis v thread \"vthread\") = n { a[v] = 1.0 }\n}";
    let a = numbers(3);
    run_text(host, &[(&a).into()]).unwrap();
    assert_eq!(a.to_f32().unwrap(), [1.0; 3]);
}

#[test]
fn the_host_launches_kernels() {
    let source = "func f(a: mut f32[n]) {
      packed \"kernel\"::<i32>(a.data, n, floordiv(n + 7, 8), 8)
    }
    device func kernel(p: ptr, n: i64) threads [axis b thread \"blockIdx.x\", axis t thread \"threadIdx.x\"] {
      alias a: f32[n] align 4 = p
      if b * 8 + t < n { a[b * 8 + t] = a[b * 8 + t] * 2.0 }
    }";
    let a = numbers(11);
    run_text(source, &[(&a).into()]).unwrap();
    assert_eq!(a.to_f32().unwrap()[10], 20.0);
    let module = text::parse(source).unwrap();
    let machine = Machine::of_module(&module).unwrap();
    let args: [Arg; 4] = [(&a).into(), 11.into(), 2.into(), 8.into()];
    machine.run("kernel", &args).unwrap();
    assert_eq!(a.to_f32().unwrap()[10], 40.0);
    let many: [Arg; 4] = [(&a).into(), 11.into(), 1.into(), 100_000.into()];
    let error = machine.run("kernel", &many).unwrap_err();
    assert!(error.what().contains("devices have at most 1024"), "{error}");
}

#[test]
fn extents_of_one_tag_are_equal() {
    let source = "func f(n: i64) {
      attr thread_extent(axis b thread \"blockIdx.x\") = 2 {
        attr thread_extent(axis t thread \"threadIdx.x\") = 8 {
        }
        attr thread_extent(axis u thread \"threadIdx.x\") = n {
        }
      }
    }";
    run_text(source, &[8.into()]).unwrap();
    fails(run_text(source, &[4.into()]), &["second extent of threadIdx.x is 4, expected 8"]);
}
