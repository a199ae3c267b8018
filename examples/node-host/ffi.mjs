// The C interface of libtvm_ffi.so as JavaScript sees it: addresses are bigints, structures are read and written by offset.
// Names, offsets and numbers are those of runtime/capi/include/kernpack/c_api.h.

import koffi from "koffi";

export const NONE = 0;
export const INT = 1;
export const BOOL = 2;
export const FLOAT = 3;
export const OPAQUE_PTR = 4;
export const DATA_TYPE = 5;
export const DEVICE = 6;
export const DL_TENSOR_PTR = 7;
export const SMALL_STR = 11;
export const SMALL_BYTES = 12;
export const STATIC_OBJECT_BEGIN = 64;
export const STR = 65;
export const BYTES = 66;
export const ERROR = 67;
export const FUNCTION = 68;
export const SHAPE = 69;
export const TENSOR = 70;
export const ARRAY = 71;
export const MAP = 72;
export const MODULE = 73;
export const LIST = 75;
export const DICT = 76;

/** Bytes of a value. */
export const ANY_SIZE = 16;
/** Bytes of the header in front of every object's own data. */
export const HEADER_SIZE = 24;

export const SafeCall = koffi.proto("int KernpackSafeCall(void* self, void* args, int32_t num_args, void* result)");
const Getter = koffi.proto("int KernpackGetter(void* field, void* result)");
const Deleter = koffi.proto("void KernpackDeleter(void* self)");

/** Opens libtvm_ffi.so for the whole process, so that libraries that are loaded later find it. */
export function open(path) {
  const library = koffi.load(path, { global: true });
  const api = {
    decRef: library.func("int TVMFFIObjectDecRef(void* object)"),
    getTypeInfo: library.func("void* TVMFFIGetTypeInfo(int32_t index)"),
    createFunction: library.func("int TVMFFIFunctionCreate(void* self, void* call, void* deleter, void* out)"),
    callFunction: library.func("int TVMFFIFunctionCall(void* f, void* args, int32_t num_args, void* result)"),
    setGlobal: library.func("int TVMFFIFunctionSetGlobal(void* name, void* f, int allow_override)"),
    getGlobal: library.func("int TVMFFIFunctionGetGlobal(void* name, void* out)"),
    toOwned: library.func("int TVMFFIAnyViewToOwnedAny(void* view, void* out)"),
    takeError: library.func("void TVMFFIErrorMoveFromRaised(void* out)"),
    raise: library.func("void TVMFFIErrorSetRaised(void* error)"),
    createError: library.func("int TVMFFIErrorCreate(void* kind, void* message, void* backtrace, void* out)"),
    newString: library.func("int TVMFFIStringFromByteArray(void* bytes, void* out)"),
    newBytes: library.func("int TVMFFIBytesFromByteArray(void* bytes, void* out)"),
    printDataType: library.func("int TVMFFIDataTypeToString(void* dtype, void* out)"),
    newTensor: library.func("int TVMFFITensorFromDLPack(void* from, int32_t align, int32_t contiguous, void* out)"),
  };
  return api;
}

/** Reads a field of an object through its getter. */
export const callGetter = (getter, field, result) => koffi.call(getter, Getter, field, result);

const libc = koffi.load(null);
const malloc = libc.func("void* malloc(size_t size)");
/** The address of `free`, which is the deleter of every block of memory that `allocate` made. */
export const freeAddress = koffi.address(libc.symbol("free"));

/** A block of memory outside JavaScript, all zero; the receiver frees it with the C function `free`. */
export function allocate(size) {
  const block = malloc(size);
  if (!block) throw new RangeError(`no memory for ${size} bytes`);
  const address = koffi.address(block);
  new Uint8Array(koffi.view(address, size)).fill(0);
  return address;
}

/** Calls `free`. */
export const release = (address) => koffi.call(freeAddress, Deleter, address);

/** `size` bytes at an address, as a DataView onto the memory itself. */
export const at = (address, size) => new DataView(koffi.view(address, size));

/** The address of a typed array's first byte; valid as long as the array is. */
export const addressOf = (array) => koffi.address(array);

export const registerCall = (callback) => koffi.address(koffi.register(callback, koffi.pointer(SafeCall)));
