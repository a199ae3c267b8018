// Calls imagekit from Node.js. Needs two files, built by cargo:
//     KERNPACK_LIBTVM_FFI   libtvm_ffi.so, from `cargo build --release -p kernpack-capi`
//     IMAGEKIT_LIBRARY      libimagekit.so, from `cargo build --release -p imagekit`

import assert from "node:assert/strict";
import test from "node:test";
import { FfiError, Runtime, tensor } from "./kernpack.mjs";

const [runtimePath, libraryPath] = ["KERNPACK_LIBTVM_FFI", "IMAGEKIT_LIBRARY"].map((name) => {
  const path = process.env[name];
  if (!path) throw new Error(`set ${name} to the path of the library (see the top of host.test.mjs)`);
  return path;
});
const runtime = new Runtime(runtimePath);
const imagekit = runtime.load(libraryPath);

const [height, width] = [24, 32];
const pixels = Uint8Array.from({ length: height * width * 3 }, (_, index) => (index * 7) % 256);
const luma = (row, column) => {
  const [r, g, b] = pixels.subarray(3 * (row * width + column));
  return (299 * r + 587 * g + 114 * b) / 1000;
};
const gray = imagekit.call("imagekit.to_gray", tensor(pixels, [height, width, 3]));

test("a tensor goes in without a copy and comes out as a typed array on the library's memory", () => {
  assert.deepEqual(gray.shape, [height, width]);
  assert.equal(gray.dtype, "float32");
  for (const [row, column] of [[0, 0], [3, 5], [23, 31]]) {
    assert.ok(Math.abs(gray.data[row * width + column] - luma(row, column)) < 1e-4);
  }
});

test("a kernel in C writes into a typed array of JavaScript", () => {
  const blurred = new Float32Array(height * width);
  imagekit.call("blur", gray, tensor(blurred, [height, width]), 1);
  const mean = (data) => data.reduce((sum, value) => sum + value, 0) / data.length;
  assert.ok(blurred.some((value) => value > 0));
  assert.ok(Math.abs(mean(blurred) - mean(gray.data)) < 5);
});

test("an object's fields are properties", () => {
  const histogram = imagekit.call("histogram", gray);
  assert.equal(histogram.typeKey, "imagekit.Histogram");
  assert.equal(histogram.total, height * width);
  assert.ok(Math.abs(histogram.mean - gray.data.reduce((sum, value) => sum + value, 0) / gray.data.length) < 1e-3);
  assert.equal(histogram.bins.length, 256);
  assert.equal(histogram.bins.reduce((sum, count) => sum + count, 0), height * width);
  assert.deepEqual(Object.keys(histogram), ["total", "mean", "min", "max", "bins"]);
  // And the object goes back.
  const threshold = imagekit.call("otsu_threshold", histogram);
  assert.ok(Number.isInteger(threshold) && threshold >= 0 && threshold < 256);
});

test("the library calls a JavaScript function for each row", () => {
  const seen = [];
  const result = imagekit.call("map_rows", gray, (row, index) => {
    seen.push(index);
    return row.data.map((value) => value / 2);
  });
  assert.deepEqual(seen, Array.from({ length: height }, (_, index) => index));
  assert.ok(result.data.every((value, index) => Math.abs(value - gray.data[index] / 2) < 1e-5));
});

test("a function that the library made is a function here, and calls nest", () => {
  const scaler = imagekit.call("make_scaler", 2.5);
  const result = imagekit.call("map_rows", gray, (row) => scaler(row));
  assert.ok(result.data.every((value, index) => Math.abs(value - Math.min(gray.data[index] * 2.5, 255)) < 1e-3));
});

test("maps, bytes and text", () => {
  const described = imagekit.call("describe", gray);
  assert.equal(described.get("height"), height);
  assert.equal(described.get("width"), width);
  assert.equal(described.get("dtype"), "float32");
  const picture = imagekit.call("to_pgm", gray);
  assert.ok(Buffer.isBuffer(picture));
  assert.equal(picture.subarray(0, 2).toString(), "P5");
  assert.equal(picture.length, `P5\n${width} ${height}\n255\n`.length + width * height);
  assert.equal(imagekit.call("ascii_art", gray, 16).split("\n")[0].length, 16);
});

test("an error of the library has its kind, message and backtrace", () => {
  assert.throws(
    () => imagekit.call("histogram", "no tensor"),
    (error) => {
      assert.ok(error instanceof FfiError);
      assert.equal(error.kind, "TypeError");
      assert.equal(error.message, "histogram(gray: Tensor): argument 'gray': expected Tensor, got str");
      assert.match(error.backtrace, /histogram\.rs/);
      return true;
    },
  );
  assert.throws(() => imagekit.call("no_such_function"), /the library has no function 'no_such_function'/);
  assert.throws(() => imagekit.call("to_pgm", Symbol("x")), /a symbol cannot be passed/);
  assert.throws(() => tensor(new Float32Array(5), [2, 3]), /has 6 elements, but there are 5/);
  assert.throws(() => imagekit.call("crop", gray, 2n ** 63n, 0, 1, 1), /does not fit 64 bits/);
});

test("what JavaScript throws comes back through the library as the same object", () => {
  const thrown = new RangeError("enough rows");
  try {
    imagekit.call("map_rows", gray, (_row, index) => {
      if (index === 3) throw thrown;
      return new Float32Array(width);
    });
    assert.fail("nothing arrived");
  } catch (error) {
    assert.equal(error, thrown);
  }
});

test("functions that JavaScript registers are global, and values survive the way there and back", () => {
  runtime.register("node.echo", (value) => value);
  const echo = runtime.global("node.echo");
  const values = [null, true, false, 0, -1, 2 ** 53 - 1, 1.5, -0, Infinity, "", "short", "a text that is longer", "grün 🙂"];
  for (const value of values) assert.ok(Object.is(echo(value), value), String(value));
  assert.equal(echo(2n ** 62n), 2n ** 62n);
  assert.equal(echo(-(2n ** 63n)), -(2n ** 63n));
  assert.ok(Number.isNaN(echo(NaN)));
  assert.deepEqual(echo(Buffer.from([0, 1, 255, 0, 7, 8, 9, 10])), Buffer.from([0, 1, 255, 0, 7, 8, 9, 10]));
  assert.deepEqual(echo([1, "two", [3.5, null]]), [1, "two", [3.5, null]]);
  assert.deepEqual(echo(new Map([["a", 1], [2, [true]]])), new Map([["a", 1], [2, [true]]]));
  assert.deepEqual(echo({ a: 1, b: "x" }), new Map(Object.entries({ a: 1, b: "x" })));
  assert.deepEqual([...echo(Float64Array.of(1, 2, 3)).data], [1, 2, 3]);
  assert.equal(runtime.global("node.no_such_function"), undefined);
  assert.throws(() => runtime.register("node.echo", () => 1), /already registered/);
});

test("many calls and objects do not add up", () => {
  const add = runtime.global("node.echo");
  const before = process.memoryUsage().rss;
  for (let round = 0; round < 20_000; round += 1) add("a text that is longer than seven bytes");
  assert.ok(process.memoryUsage().rss - before < 200e6);
});
