// Calls libraries made with Kernpack (or with anything else that speaks the TVM FFI) from Node.js.
//
//     import { Runtime, tensor } from "./kernpack.mjs";
//     const runtime = new Runtime("libtvm_ffi.so");
//     const imagekit = runtime.load("libimagekit.so");
//     const gray = imagekit.call("imagekit.to_gray", tensor(pixels, [height, width, 3]));
//
// How values convert. JavaScript to the library: null and undefined are None; booleans, bigints, strings; a number is an int when it
// is an integer, else a float; a Buffer is bytes; a tensor (see `tensor`) or any other typed array is a tensor that the library
// borrows for the call; an array is an ffi.Array, a Map or plain object an ffi.Map; a function is a function, called on the thread
// that runs JavaScript; what came from a library goes back as it is. The library to JavaScript: the same backwards; an int beyond 2^53
// is a bigint; an ffi.Array or ffi.List is an array, an ffi.Map or ffi.Dict a Map; a tensor has `shape`, `dtype` and `data`; any
// other object has the fields that its type registered.

import * as ffi from "./ffi.mjs";

/** An error of a library: `kind` is its class, `backtrace` its frames, most recent call first. */
export class FfiError extends Error {
  constructor(kind, message, backtrace) {
    super(message);
    this.name = kind;
    this.kind = kind;
    this.backtrace = backtrace;
  }
}

/** A typed array with a shape (and the kind of its elements), to be passed as a tensor. */
export class Tensor {
  constructor(data, shape, owner = null) {
    const count = shape.reduce((product, size) => product * size, 1);
    if (count !== data.length) {
      throw new RangeError(`a tensor of shape [${shape}] has ${count} elements, but there are ${data.length}`);
    }
    this.data = data;
    this.shape = shape;
    /** The object that keeps the memory alive if a library owns it. */
    this.owner = owner;
  }

  get dtype() {
    return KINDS.find((kind) => this.data instanceof kind.array).name;
  }
}

export const tensor = (data, shape = [data.length]) => new Tensor(data, shape);

/** Kinds of elements: DLPack's code and bits, and the typed array. */
const KINDS = [
  { name: "int8", code: 0, bits: 8, array: Int8Array },
  { name: "int16", code: 0, bits: 16, array: Int16Array },
  { name: "int32", code: 0, bits: 32, array: Int32Array },
  { name: "int64", code: 0, bits: 64, array: BigInt64Array },
  { name: "uint8", code: 1, bits: 8, array: Uint8Array },
  { name: "uint8", code: 1, bits: 8, array: Uint8ClampedArray },
  { name: "uint16", code: 1, bits: 16, array: Uint16Array },
  { name: "uint32", code: 1, bits: 32, array: Uint32Array },
  { name: "uint64", code: 1, bits: 64, array: BigUint64Array },
  { name: "float32", code: 2, bits: 32, array: Float32Array },
  { name: "float64", code: 2, bits: 64, array: Float64Array },
];

const DL_TENSOR_SIZE = 48;
const DL_MANAGED_TENSOR_SIZE = 64;

/** Releases reference-counted objects that JavaScript no longer uses. */
const leaver = new FinalizationRegistry(({ api, address }) => api.decRef(address));

/** A reference to an object of a library. */
class Reference {
  constructor(runtime, address) {
    this.runtime = runtime;
    this.address = address;
    leaver.register(this, { api: runtime.api, address }, this);
  }
}

/** The property in which a wrapper keeps its reference. */
const REFERENCE = Symbol("reference");

/** One libtvm_ffi.so in this process. */
export class Runtime {
  constructor(path) {
    this.api = ffi.open(path);
    this.globals = new Map();
  }

  /** The global function of this name, as a JavaScript function; undefined when there is none. */
  global(name) {
    if (!this.globals.has(name)) {
      const out = new BigUint64Array(1);
      const text = bytesOf(name);
      this.#check(this.api.getGlobal(text.array, out));
      if (out[0] === 0n) return undefined;
      this.globals.set(name, this.#wrapFunction(out[0]));
    }
    return this.globals.get(name);
  }

  /** Registers a JavaScript function under a name that every language in this process finds. */
  register(name, callback) {
    const created = this.#newFunction(callback);
    const text = bytesOf(name);
    const status = this.api.setGlobal(text.array, created, 0);
    this.api.decRef(created);
    this.#check(status);
  }

  /** Loads a library. */
  load(path) {
    return new Module(this, this.#need("ffi.ModuleLoadFromFile")(path));
  }

  #need(name) {
    const found = this.global(name);
    if (!found) throw new Error(`this libtvm_ffi.so has no function ${name}`);
    return found;
  }

  #check(status) {
    if (status !== 0) throw this.#takeError();
  }

  /** The error that the last call raised. If JavaScript threw it, the very same object. */
  #takeError() {
    const out = new BigUint64Array(1);
    this.api.takeError(out);
    const address = out[0];
    if (address === 0n) return new FfiError("InternalError", "a call failed without raising an error", "");
    const cell = ffi.at(address + BigInt(ffi.HEADER_SIZE), 48);
    const [kind, message, backtrace] = [0, 16, 32].map((offset) => readText(cell, offset));
    const thrown = this.thrown;
    this.thrown = undefined;
    this.api.decRef(address);
    // An error may collect more frames on its way, possibly in a copy of the object; the beginning is kept.
    const same = thrown && thrown.kind === kind && thrown.message === message && backtrace.startsWith(thrown.frames);
    return same ? thrown.error : new FfiError(kind, message, backtrace);
  }

  /** Calls a function object. */
  #call(address, values) {
    const args = Buffer.alloc(ffi.ANY_SIZE * Math.max(values.length, 1));
    const view = new DataView(args.buffer, args.byteOffset, args.byteLength);
    const held = [];
    const result = Buffer.alloc(ffi.ANY_SIZE);
    try {
      values.forEach((value, index) => this.#write(view, index * ffi.ANY_SIZE, value, held));
      this.#check(this.api.callFunction(address, args, values.length, result));
    } finally {
      for (const release of held) release();
    }
    return this.#read(new DataView(result.buffer, result.byteOffset, ffi.ANY_SIZE), 0);
  }

  #wrapFunction(address) {
    const reference = new Reference(this, address);
    const wrapper = (...values) => this.#call(reference.address, values);
    wrapper[REFERENCE] = reference;
    return wrapper;
  }

  /** A function object that calls `callback`; the caller owns its one reference. */
  #newFunction(callback) {
    const call = ffi.registerCall((_self, args, count, result) => {
      try {
        const view = count > 0 ? ffi.at(args, count * ffi.ANY_SIZE) : null;
        const values = Array.from({ length: count }, (_, index) => this.#readBorrowed(view, index * ffi.ANY_SIZE));
        const held = [];
        const buffer = new DataView(new ArrayBuffer(ffi.ANY_SIZE));
        try {
          this.#write(buffer, 0, callback(...values), held, true);
          const out = new Uint8Array(ffi.ANY_SIZE);
          this.#check(this.api.toOwned(new Uint8Array(buffer.buffer), out));
          new Uint8Array(ffi.at(result, ffi.ANY_SIZE).buffer).set(out);
        } finally {
          for (const release of held) release();
        }
        return 0;
      } catch (error) {
        this.#raise(error);
        return -1;
      }
    });
    const out = new BigUint64Array(1);
    // The registered callback lives as long as the process: any language may keep the function that long.
    this.#check(this.api.createFunction(null, call, null, out));
    return out[0];
  }

  /** Raises an exception of JavaScript. It is the same object when it reaches JavaScript again. */
  #raise(error) {
    const kind = error instanceof FfiError ? error.kind : error instanceof Error ? error.name : "Error";
    const message = error instanceof Error ? error.message : String(error);
    const frames = error instanceof FfiError ? error.backtrace : framesOf(error);
    const texts = [kind, message, frames].map(bytesOf);
    const out = new BigUint64Array(1);
    this.api.createError(texts[0].array, texts[1].array, texts[2].array, out);
    this.api.raise(out[0]);
    this.api.decRef(out[0]);
    this.thrown = { kind, message, frames, error };
  }

  /** Writes a value as an argument. `held` collects the references to release after the call. */
  #write(view, offset, value, held, keep = false) {
    const put = (index, payload) => {
      view.setInt32(offset, index, true);
      view.setUint32(offset + 4, 0, true);
      view.setBigUint64(offset + 8, BigInt.asUintN(64, payload), true);
    };
    const own = (create) => {
      const any = new Uint8Array(ffi.ANY_SIZE);
      this.#check(create(any));
      new Uint8Array(view.buffer, view.byteOffset + offset, ffi.ANY_SIZE).set(any);
      const owned = new DataView(any.buffer);
      if (owned.getInt32(0, true) >= ffi.STATIC_OBJECT_BEGIN) {
        const address = owned.getBigUint64(8, true);
        held.push(() => this.api.decRef(address));
      }
    };
    const pass = (wrapper) => {
      const { address } = wrapper[REFERENCE];
      put(ffi.at(address, ffi.HEADER_SIZE).getInt32(8, true), address);
      // The wrapper is not collected before the call returns.
      held.push(() => wrapper);
    };
    if (value === null || value === undefined) return put(ffi.NONE, 0n);
    switch (typeof value) {
      case "boolean":
        return put(ffi.BOOL, value ? 1n : 0n);
      case "bigint":
        if (BigInt.asIntN(64, value) !== value) throw new RangeError(`${value} does not fit 64 bits`);
        return put(ffi.INT, value);
      case "number":
        if (Number.isSafeInteger(value) && !Object.is(value, -0)) return put(ffi.INT, BigInt(value));
        put(ffi.FLOAT, 0n);
        return view.setFloat64(offset + 8, value, true);
      case "string": {
        const text = bytesOf(value);
        return own((out) => this.api.newString(text.array, out));
      }
      case "function":
        if (value[REFERENCE]) return pass(value);
        return own((out) => {
          const address = this.#newFunction(value);
          const any = new DataView(out.buffer);
          any.setInt32(0, ffi.FUNCTION, true);
          any.setBigUint64(8, address, true);
          return 0;
        });
      case "object":
        break;
      default:
        throw new TypeError(`a ${typeof value} cannot be passed to a packed function`);
    }
    if (value[REFERENCE]) return pass(value);
    if (value instanceof Tensor && value.owner) return pass({ [REFERENCE]: value.owner });
    if (value instanceof Tensor || (ArrayBuffer.isView(value) && !Buffer.isBuffer(value))) {
      const given = value instanceof Tensor ? value : tensor(value);
      return keep ? own((out) => this.#copyTensor(given, out)) : this.#lendTensor(given, put, held);
    }
    if (Buffer.isBuffer(value)) {
      const bytes = bytesOf(value);
      return own((out) => this.api.newBytes(bytes.array, out));
    }
    const build = (name, items) => {
      const wrapper = this.#callFor(name, items, held);
      put(wrapper.index, wrapper.address);
    };
    if (Array.isArray(value)) return build("ffi.Array", value);
    const pairs = value instanceof Map ? [...value] : Object.entries(value);
    return build("ffi.Map", pairs.flat());
  }

  /** Calls a global function and keeps its result as an object that lives until the call is over. */
  #callFor(name, values, held) {
    const args = Buffer.alloc(ffi.ANY_SIZE * Math.max(values.length, 1));
    const view = new DataView(args.buffer, args.byteOffset, args.byteLength);
    // An element is kept, so a tensor in it must own its data.
    values.forEach((value, index) => this.#write(view, index * ffi.ANY_SIZE, value, held, true));
    const result = Buffer.alloc(ffi.ANY_SIZE);
    const reference = this.#need(name)[REFERENCE];
    this.#check(this.api.callFunction(reference.address, args, values.length, result));
    const address = result.readBigUInt64LE(8);
    held.push(() => this.api.decRef(address));
    return { index: result.readInt32LE(0), address };
  }

  /** Lends the memory of a typed array for one call. */
  #lendTensor(given, put, held) {
    const dimensions = BigInt64Array.from([...given.shape, ...stridesOf(given.shape)].map(BigInt));
    const described = new DataView(new ArrayBuffer(DL_TENSOR_SIZE));
    describe(described, 0, given, ffi.addressOf(given.data), ffi.addressOf(dimensions));
    const bytes = new Uint8Array(described.buffer);
    put(ffi.DL_TENSOR_PTR, ffi.addressOf(bytes));
    held.push(() => [given, dimensions, bytes]);
  }

  /** A tensor that owns a copy of the data: one block of memory, which `free` gives back. */
  #copyTensor(given, out) {
    const count = given.shape.length;
    const data = DL_MANAGED_TENSOR_SIZE + Math.ceil((16 * count) / 64) * 64;
    const block = ffi.allocate(data + given.data.byteLength);
    const view = ffi.at(block, data + given.data.byteLength);
    const dimensions = block + BigInt(DL_MANAGED_TENSOR_SIZE);
    [...given.shape, ...stridesOf(given.shape)].forEach((size, index) => {
      view.setBigInt64(DL_MANAGED_TENSOR_SIZE + 8 * index, BigInt(size), true);
    });
    describe(view, 0, given, block + BigInt(data), dimensions);
    view.setBigUint64(56, ffi.freeAddress, true);
    const source = new Uint8Array(given.data.buffer, given.data.byteOffset, given.data.byteLength);
    new Uint8Array(view.buffer, data).set(source);
    const handle = new BigUint64Array(1);
    const status = this.api.newTensor(block, 0, 0, handle);
    if (status !== 0) {
      ffi.release(block);
      return status;
    }
    const any = new DataView(out.buffer);
    any.setInt32(0, ffi.TENSOR, true);
    any.setBigUint64(8, handle[0], true);
    return 0;
  }

  /** Reads a borrowed value. */
  #readBorrowed(view, offset) {
    const index = view.getInt32(offset, true);
    if (index === ffi.DL_TENSOR_PTR) return readTensor(ffi.at(view.getBigUint64(offset + 8, true), DL_TENSOR_SIZE), 0);
    const copy = new Uint8Array(ffi.ANY_SIZE);
    const borrowed = new Uint8Array(view.buffer, view.byteOffset + offset, ffi.ANY_SIZE).slice();
    this.#check(this.api.toOwned(borrowed, copy));
    return this.#read(new DataView(copy.buffer), 0);
  }

  /** Reads a value that is now owned by JavaScript. */
  #read(view, offset) {
    const index = view.getInt32(offset, true);
    const address = () => view.getBigUint64(offset + 8, true);
    switch (index) {
      case ffi.NONE:
        return null;
      case ffi.INT: {
        const value = view.getBigInt64(offset + 8, true);
        const number = Number(value);
        return Number.isSafeInteger(number) ? number : value;
      }
      case ffi.BOOL:
        return view.getBigInt64(offset + 8, true) !== 0n;
      case ffi.FLOAT:
        return view.getFloat64(offset + 8, true);
      case ffi.OPAQUE_PTR:
        return address();
      case ffi.SMALL_STR:
      case ffi.SMALL_BYTES: {
        const bytes = Buffer.from(view.buffer, view.byteOffset + offset + 8, view.getUint32(offset + 4, true));
        return index === ffi.SMALL_STR ? bytes.toString("utf8") : Buffer.from(bytes);
      }
      case ffi.DEVICE:
        return { type: view.getInt32(offset + 8, true), id: view.getInt32(offset + 12, true) };
      case ffi.DATA_TYPE: {
        const out = new Uint8Array(ffi.ANY_SIZE);
        const dtype = new Uint8Array(view.buffer, view.byteOffset + offset + 8, 4).slice();
        this.#check(this.api.printDataType(dtype, out));
        return this.#read(new DataView(out.buffer), 0);
      }
      default:
        if (index < ffi.STATIC_OBJECT_BEGIN) throw new TypeError(`a value of type index ${index} cannot be read here`);
        return this.#wrap(index, address());
    }
  }

  /** Converts an owned reference to an object to a JavaScript value. */
  #wrap(index, address) {
    switch (index) {
      case ffi.STR:
      case ffi.BYTES: {
        const bytes = readBytes(ffi.at(address + BigInt(ffi.HEADER_SIZE), 16), 0);
        this.api.decRef(address);
        return index === ffi.STR ? bytes.toString("utf8") : bytes;
      }
      case ffi.FUNCTION:
        return this.#wrapFunction(address);
      case ffi.TENSOR: {
        const found = readTensor(ffi.at(address + BigInt(ffi.HEADER_SIZE), DL_TENSOR_SIZE), 0);
        found.owner = new Reference(this, address);
        return found;
      }
      case ffi.SHAPE: {
        const cell = ffi.at(address + BigInt(ffi.HEADER_SIZE), 16);
        const count = Number(cell.getBigUint64(8, true));
        const sizes = count > 0 ? ffi.at(cell.getBigUint64(0, true), 8 * count) : null;
        const shape = Array.from({ length: count }, (_, at) => Number(sizes.getBigInt64(8 * at, true)));
        this.api.decRef(address);
        return shape;
      }
    }
    const wrapper = this.#wrapObject(index, address);
    switch (index) {
      case ffi.ARRAY:
      case ffi.LIST: {
        const name = index === ffi.ARRAY ? "Array" : "List";
        const size = this.#need(`ffi.${name}Size`)(wrapper);
        const get = this.#need(`ffi.${name}GetItem`);
        return Array.from({ length: size }, (_, at) => get(wrapper, at));
      }
      case ffi.MAP:
      case ffi.DICT: {
        const name = index === ffi.MAP ? "Map" : "Dict";
        const result = new Map();
        let left = this.#need(`ffi.${name}Size`)(wrapper);
        const iterate = this.#need(`ffi.${name}ForwardIterFunctor`)(wrapper);
        for (; left > 0; left -= 1) {
          result.set(iterate(0), iterate(1));
          iterate(2);
        }
        return result;
      }
      default:
        return wrapper;
    }
  }

  /** An object with the fields that its type and the types above it registered. */
  #wrapObject(index, address) {
    const wrapper = {};
    Object.defineProperty(wrapper, REFERENCE, { value: new Reference(this, address) });
    const info = ffi.at(this.api.getTypeInfo(index), 72);
    Object.defineProperty(wrapper, "typeKey", { value: readText(info, 8) });
    const depth = info.getInt32(4, true);
    const ancestors = depth > 0 ? ffi.at(info.getBigUint64(24, true), 8 * depth) : null;
    const types = Array.from({ length: depth }, (_, at) => ffi.at(ancestors.getBigUint64(8 * at, true), 72));
    for (const type of [...types, info]) {
      const count = type.getInt32(40, true);
      const fields = count > 0 ? ffi.at(type.getBigUint64(48, true), 120 * count) : null;
      for (let at = 0; at < count; at += 1) {
        const getter = fields.getBigUint64(120 * at + 80, true);
        const place = address + fields.getBigUint64(120 * at + 72, true);
        const get = () => {
          const out = new Uint8Array(ffi.ANY_SIZE);
          this.#check(ffi.callGetter(getter, place, out));
          return this.#read(new DataView(out.buffer), 0);
        };
        Object.defineProperty(wrapper, readText(fields, 120 * at), { get, enumerable: true });
      }
    }
    return wrapper;
  }
}

/** A loaded library. */
export class Module {
  constructor(runtime, object) {
    this.runtime = runtime;
    this.object = object;
    this.functions = new Map();
  }

  /** The function of this name, from the library or from what it imports. */
  get(name) {
    if (!this.functions.has(name)) {
      const found = this.runtime.global("ffi.ModuleGetFunction")(this.object, name, true);
      if (!found) throw new Error(`the library has no function '${name}'`);
      this.functions.set(name, found);
    }
    return this.functions.get(name);
  }

  /** Calls the function of this name. */
  call(name, ...values) {
    return this.get(name)(...values);
  }
}

/** A text (or bytes) and the ABI's pair of address and length that points to it. */
function bytesOf(text) {
  const bytes = Buffer.from(text);
  const array = new BigUint64Array(2);
  array[0] = bytes.length > 0 ? ffi.addressOf(bytes) : 0n;
  array[1] = BigInt(bytes.length);
  // Both are in one object, so that the text lives as long as the pair.
  return { array, bytes };
}

function readBytes(view, offset) {
  const size = Number(view.getBigUint64(offset + 8, true));
  if (size === 0) return Buffer.alloc(0);
  return Buffer.from(new Uint8Array(ffi.at(view.getBigUint64(offset, true), size).buffer).slice());
}

const readText = (view, offset) => readBytes(view, offset).toString("utf8");

/** Row-major strides, in elements. */
function stridesOf(shape) {
  let stride = 1;
  const strides = [];
  for (const size of [...shape].reverse()) {
    strides.unshift(stride);
    stride *= size;
  }
  return strides;
}

/** Writes a DLTensor on the CPU; `dimensions` is the address of the shape, which the strides follow. */
function describe(view, offset, given, data, dimensions) {
  const kind = KINDS.find((known) => given.data instanceof known.array);
  if (!kind) throw new TypeError(`a ${given.data?.constructor?.name} cannot be passed as a tensor`);
  view.setBigUint64(offset, data, true);
  view.setInt32(offset + 8, 1, true);
  view.setInt32(offset + 16, given.shape.length, true);
  view.setUint8(offset + 20, kind.code);
  view.setUint8(offset + 21, kind.bits);
  view.setUint16(offset + 22, 1, true);
  view.setBigUint64(offset + 24, dimensions, true);
  view.setBigUint64(offset + 32, dimensions + BigInt(8 * given.shape.length), true);
}

/** Reads a DLTensor: a typed array onto its memory when it lies in one piece in the CPU's, else an error. */
function readTensor(view, offset) {
  const count = view.getInt32(offset + 16, true);
  const [code, bits, lanes] = [view.getUint8(offset + 20), view.getUint8(offset + 21), view.getUint16(offset + 22, true)];
  const kind = KINDS.find((known) => known.code === code && known.bits === bits && lanes === 1);
  const device = view.getInt32(offset + 8, true);
  if (!kind) throw new TypeError(`tensors of code ${code}, ${bits} bits and ${lanes} lanes have no typed array`);
  if (device !== 1) throw new TypeError(`the tensor is on a device of type ${device}, not in the CPU's memory`);
  const list = (address) => {
    const numbers = count > 0 ? ffi.at(address, 8 * count) : null;
    return Array.from({ length: count }, (_, at) => Number(numbers.getBigInt64(8 * at, true)));
  };
  const shape = list(view.getBigUint64(offset + 24, true));
  const strides = view.getBigUint64(offset + 32, true);
  const expected = stridesOf(shape);
  if (strides !== 0n && list(strides).some((stride, at) => shape[at] > 1 && stride !== expected[at])) {
    throw new TypeError("the tensor's elements do not lie in row-major order without gaps; make it contiguous first");
  }
  const length = shape.reduce((product, size) => product * size, 1);
  const start = view.getBigUint64(offset, true) + view.getBigUint64(offset + 40, true);
  const data = length > 0 ? new kind.array(ffi.at(start, (length * bits) / 8).buffer, 0, length) : new kind.array(0);
  return new Tensor(data, shape);
}

/** The frames of a JavaScript error in the ABI's form. */
function framesOf(error) {
  const lines = error instanceof Error && error.stack ? error.stack.split("\n") : [];
  const frames = lines.map((line) => /^\s*at (?:(.*?) \()?(?:file:\/\/)?(.*?):(\d+):\d+\)?$/.exec(line)).filter(Boolean);
  return frames.map(([, name, file, line]) => `  File "${file}", line ${line}, in ${name ?? "<anonymous>"}\n`).join("");
}
