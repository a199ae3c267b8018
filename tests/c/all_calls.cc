// Calls every C function of the ABI, with valid and invalid arguments, and prints the results: one
// line for each call. The test runs it with the stock library and with ours and compares the lines.
//
// `Step` is a call in this process. `Risky` is one that may kill the process: it runs in a child,
// and the parent then prints "died".
#include <sys/wait.h>
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

using std::string;

static string Number(int64_t value) { return std::to_string(value); }

static string Quoted(const char* data, size_t size) {
  if (data == nullptr) return "NULL+" + std::to_string(size);
  string out = "\"";
  for (size_t i = 0; i < size; ++i) {
    unsigned char c = data[i];
    char code[8];
    if (c == '\n') {
      out += "\\n";
    } else if (c < 32 || c > 126) {
      snprintf(code, sizeof(code), "\\x%02x", c);
      out += code;
    } else {
      out += static_cast<char>(c);
    }
  }
  return out + "\"";
}

static string Quoted(TVMFFIByteArray text) { return Quoted(text.data, text.size); }

static TVMFFIByteArray Bytes(const char* text) { return {text, strlen(text)}; }

template <size_t N>
static TVMFFIByteArray Literal(const char (&text)[N]) {
  return {text, N - 1};
}

template <typename Cell>
static Cell* CellOf(TVMFFIObjectHandle object) {
  return reinterpret_cast<Cell*>(static_cast<char*>(object) + sizeof(TVMFFIObject));
}

static TVMFFIObject* Header(TVMFFIObjectHandle object) { return static_cast<TVMFFIObject*>(object); }

static string Count(TVMFFIObjectHandle object) {
  uint64_t count = Header(object)->combined_ref_count;
  return "strong " + std::to_string(count & 0xffffffff) + " weak " + std::to_string(count >> 32);
}

static TVMFFIAny None() { return TVMFFIAny{}; }

static TVMFFIAny Int(int64_t value) {
  TVMFFIAny any{};
  any.type_index = kTVMFFIInt;
  any.v_int64 = value;
  return any;
}

static TVMFFIAny Pointer(int32_t type_index, const void* value) {
  TVMFFIAny any{};
  any.type_index = type_index;
  any.v_ptr = const_cast<void*>(value);
  return any;
}

static TVMFFIAny Object(TVMFFIObjectHandle object) { return Pointer(Header(object)->type_index, object); }

static string Show(const TVMFFIAny& value) {
  string out = "<" + Number(value.type_index) + "> ";
  switch (value.type_index) {
    case kTVMFFISmallStr:
    case kTVMFFISmallBytes:
      return out + Quoted(value.v_bytes, value.small_str_len) + " padded " + Quoted(value.v_bytes, 8);
    case kTVMFFIStr:
    case kTVMFFIBytes: {
      auto* text = CellOf<TVMFFIByteArray>(value.v_obj);
      return out + Quoted(*text) + " then " + Number(text->data[text->size]) + " pad " + Number(value.zero_padding);
    }
    case kTVMFFIBigInt: {
      TVMFFIByteArray words = TVMFFIBigIntGetContentByteArray(&value);
      return out + Quoted(words);
    }
    default:
      if (value.type_index >= kTVMFFIStaticObjectBegin) return out + "object pad " + Number(value.zero_padding);
      return out + Number(value.v_int64) + " pad " + Number(value.zero_padding);
  }
}

static void Release(TVMFFIAny value) {
  if (value.type_index >= kTVMFFIStaticObjectBegin) TVMFFIObjectDecRef(value.v_obj);
}

static string ShowError(TVMFFIObjectHandle error) {
  auto* cell = CellOf<TVMFFIErrorCell>(error);
  string out = Quoted(cell->kind) + ": " + Quoted(cell->message);
  for (const TVMFFIByteArray& text : {cell->kind, cell->message, cell->backtrace}) {
    if (text.data[text.size] != 0) out += " without NUL";
  }
  return out;
}

// Takes the raised error.
static string Raised() {
  TVMFFIObjectHandle error = nullptr;
  TVMFFIErrorMoveFromRaised(&error);
  if (error == nullptr) return "nothing raised";
  string out = ShowError(error);
  TVMFFIObjectDecRef(error);
  return out;
}

static string Outcome(int code) { return code == 0 ? "ok" : Number(code) + " " + Raised(); }

static string Outcome(int code, const std::function<string()>& result) {
  return code == 0 ? "ok " + result() : Outcome(code);
}

static void Step(const string& name, const string& outcome) { printf("%s -> %s\n", name.c_str(), outcome.c_str()); }

static void Risky(const string& name, const std::function<string()>& call) {
  fflush(stdout);
  int channel[2];
  if (pipe(channel) != 0) exit(3);
  pid_t child = fork();
  if (child == 0) {
    close(2);
    string outcome = call();
    if (write(channel[1], outcome.data(), outcome.size()) < 0) _exit(4);
    _exit(0);
  }
  close(channel[1]);
  string outcome;
  char buffer[4096];
  for (ssize_t got; (got = read(channel[0], buffer, sizeof(buffer))) > 0;) outcome.append(buffer, got);
  close(channel[0]);
  int status = 0;
  waitpid(child, &status, 0);
  Step(name, WIFEXITED(status) && WEXITSTATUS(status) == 0 ? outcome : "died");
}

static uint64_t random_state = 1;
static uint64_t Random(uint64_t below) {
  random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
  return (random_state >> 33) % below;
}

// --- texts, integers, data types -----------------------------------------------------------------------------------------

static void Versions() {
  TVMFFIVersion version{9, 9, 9};
  TVMFFIGetVersion(&version);
  Step("GetVersion", Number(version.major) + "." + Number(version.minor) + "." + Number(version.patch));
  Risky("GetVersion NULL", [] {
    TVMFFIGetVersion(nullptr);
    return string("alive");
  });
}

static void Texts() {
  for (size_t size : {0, 1, 6, 7, 8, 9, 1000}) {
    string text(size, 'x');
    if (size > 3) text[2] = '\0';
    TVMFFIByteArray input{text.data(), text.size()};
    for (bool bytes : {false, true}) {
      TVMFFIAny out = Int(-1);
      int code = bytes ? TVMFFIBytesFromByteArray(&input, &out) : TVMFFIStringFromByteArray(&input, &out);
      Step((bytes ? "BytesFromByteArray " : "StringFromByteArray ") + Number(size), Outcome(code, [&] { return Show(out); }));
      if (out.type_index >= kTVMFFIStaticObjectBegin) Step("  count", Count(out.v_obj));
      Release(out);
    }
  }
  TVMFFIByteArray empty{nullptr, 0}, invalid = Literal("\xff\xfe not UTF-8");
  TVMFFIAny out;
  Step("StringFromByteArray NULL+0", Outcome(TVMFFIStringFromByteArray(&empty, &out), [&] { return Show(out); }));
  Step("StringFromByteArray no UTF-8", Outcome(TVMFFIStringFromByteArray(&invalid, &out), [&] { return Show(out); }));
  Release(out);
  for (auto* function : {TVMFFIStringFromByteArray, TVMFFIBytesFromByteArray, TVMFFIBigIntFromByteArray}) {
    Risky("FromByteArray(NULL, out)", [=] {
      TVMFFIAny out = Int(5);
      return Outcome(function(nullptr, &out));
    });
    Risky("FromByteArray(text, NULL)", [=] {
      TVMFFIByteArray input = Literal("12345678");
      return Outcome(function(&input, nullptr));
    });
  }
}

static void BigInts() {
  std::vector<std::vector<int64_t>> cases = {{}, {0}, {-7}, {5, 0}, {5, 0, 0}, {-5, -1}, {-5, 0}, {5, -1}, {1, 2, 0, 0}, {1, -2, -1, -1},
      {0, 0, INT64_MIN}, {0, 1}, {INT64_MAX, 0}, {INT64_MIN, -1}, {INT64_MIN, 0}, {0, -1}, {0, 0}, {-1, -1}, {-1, -1, -1}, {-1, 0}};
  for (const auto& words : cases) {
    TVMFFIByteArray input{reinterpret_cast<const char*>(words.data()), words.size() * 8};
    TVMFFIAny out = Int(-1);
    int code = TVMFFIBigIntFromByteArray(&input, &out);
    Step("BigIntFromByteArray of " + Number(words.size()) + " words", Outcome(code, [&] { return Show(out); }));
    if (out.type_index == kTVMFFIBigInt) Step("  count", Count(out.v_obj));
    TVMFFIByteArray content = TVMFFIBigIntGetContentByteArray(&out);
    Step("BigIntGetContentByteArray", Quoted(content));
    if (out.type_index == kTVMFFIInt) Step("  its own payload", content.data == reinterpret_cast<char*>(&out.v_int64) ? "yes" : "no");
    Release(out);
  }
  for (size_t size : {1, 7, 9, 12, 15}) {
    TVMFFIByteArray input{"0123456789abcdef", size};
    TVMFFIAny out = Int(-1);
    int code = TVMFFIBigIntFromByteArray(&input, &out);
    Step("BigIntFromByteArray of " + Number(size) + " bytes", Outcome(code) + " leaves " + Show(out));
  }
}

static string ParseType(TVMFFIByteArray text) {
  DLDataType type{9, 9, 9};
  int code = TVMFFIDataTypeFromString(&text, &type);
  return Outcome(code, [&] {
    TVMFFIAny out = Int(-1);
    string back = Outcome(TVMFFIDataTypeToString(&type, &out), [&] { return Show(out); });
    Release(out);
    return Number(type.code) + "/" + Number(type.bits) + "/" + Number(type.lanes) + " back " + back;
  });
}

static void DataTypes() {
  for (const char* text :
       {"", "void", "int", "i8", "i0", "int0", "int1x1", "int32x0", "int32x", "int32xx4", "int32x4 ", " int32", "Int32", "uint", "u", "u1x3", "uint8x65535",
        "uint8x65536", "uint8x4294967295", "uint8x4294967296", "uint8x18446744073709551617", "int255", "int256", "int4294967296",
        "int18446744073709551624", "float", "f", "f16", "f16x2", "fx2", "float16x02", "float64xvscalex8", "float64xvscalex0", "float64xvscalex",
        "float64xvscale", "float64xvscale8", "float64xvscalex32768", "float64xvscalex65535", "float64xvscalex65536", "float64xvscalex40000",
        "float8_e4m3fnxvscalex4", "handle", "handle8x2", "handlex4", "bfloat", "bf", "bf16x65535", "bfloat8", "bool", "bool1", "boolx4",
        "boolxvscalex4", "bool8x1", "b8", "complex128", "custom", "custom[", "custom[x", "custom[x]8", "custom]x[", "float8_", "float8", "float8_e3m4",
        "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
        "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn", "float4_e2m1fnx2", "float4_e2m1fn_x2", "float4_e2m1fn_", "float4_e2m1fn_2",
        "float4_e2m1fn_xx", "f8_e4m3", "f8_e4m3x", "f8_e4m3x0", "f8_e4m3x4y", "f8_e4m3_x4", "f8_e4m3fnx70000", "fp8_e4m3fn", "fp8_e4m3f",
        "fp6_e3m2fnx3", "fp4_e2m1fnx4", "f6_e9", "f4_", "fp", "fp8", "fp16", "fp8_", "f6_e2m3fn_x2", "float8_e4m3b11fnuzx1x1", "f8e4m3", "float80",
        "float08", "int+8", "int-8", "u8x-1", "i8x+1", "int8x4294967297", "bf8x4294967295"}) {
    Step(string("DataTypeFromString '") + text + "'", ParseType(Bytes(text)));
  }
  Step("DataTypeFromString with NUL", ParseType(Literal("int8\0x4")));
  Step("DataTypeFromString no UTF-8", ParseType(Literal("int8\xff")));
  const char* parts[] = {"int", "i", "uint", "u", "float", "f", "bfloat", "bf", "bool", "handle", "void", "8", "16", "32", "4", "1", "0", "255", "256",
      "65536", "x", "xvscale", "xvscalex", "_", "fp8_", "f8_", "float8_", "fp4_", "f4_", "f6_", "fp6_", "e4m3", "fn", "uz", "b11", "e5m2", "e2m1fn", "e8m0fnu", "e3m4",
      "e2m3fn", "custom", "[", "]", "-", " ", "6", "2"};
  for (int round = 0; round < 3000; ++round) {
    string text;
    for (uint64_t count = Random(6); count > 0; --count) text += parts[Random(sizeof(parts) / sizeof(parts[0]))];
    // Without a closing bracket the stock library reads beyond the text.
    if (text.rfind("custom", 0) == 0) continue;
    Step("DataTypeFromString '" + text + "'", ParseType({text.data(), text.size()}));
  }
  for (int code = 0; code < 140; ++code) {
    for (int bits : {0, 1, 8, 64}) {
      for (int lanes : {0, 1, 2, 32767, 32768, 65535}) {
        DLDataType type{static_cast<uint8_t>(code), static_cast<uint8_t>(bits), static_cast<uint16_t>(lanes)};
        TVMFFIAny out = Int(-1);
        Step("DataTypeToString " + Number(code) + "/" + Number(bits) + "/" + Number(lanes),
             Outcome(TVMFFIDataTypeToString(&type, &out), [&] { return Show(out); }));
        Release(out);
      }
    }
  }
  Risky("DataTypeFromString(NULL, out)", [] {
    DLDataType type;
    return Outcome(TVMFFIDataTypeFromString(nullptr, &type));
  });
  Risky("DataTypeToString(NULL, out)", [] {
    TVMFFIAny out;
    return Outcome(TVMFFIDataTypeToString(nullptr, &out));
  });
}

// --- objects and values --------------------------------------------------------------------------------------------------

static int deleted = 0;
static void CountDeleted(void* self) {
  ++deleted;
  if (self != nullptr) ++*static_cast<int*>(self);
}

static void Opaque() {
  int count = 0;
  TVMFFIObjectHandle object = nullptr;
  int code = TVMFFIObjectCreateOpaque(&count, kTVMFFIOpaquePyObject, CountDeleted, &object);
  Step("ObjectCreateOpaque", Outcome(code, [&] {
         return Number(Header(object)->type_index) + (CellOf<TVMFFIOpaqueObjectCell>(object)->handle == &count ? " same" : " other");
       }));
  Step("ObjectIncRef", Outcome(TVMFFIObjectIncRef(object), [&] { return Count(object); }));
  Step("ObjectDecRef", Outcome(TVMFFIObjectDecRef(object), [&] { return Count(object) + " deleted " + Number(count); }));
  Step("ObjectDecRef", Outcome(TVMFFIObjectDecRef(object), [&] { return "deleted " + Number(count); }));
  for (int32_t type_index : {0, 64, 70, 73, 75, 128, -1}) {
    object = nullptr;
    code = TVMFFIObjectCreateOpaque(&count, type_index, CountDeleted, &object);
    Step("ObjectCreateOpaque " + Number(type_index), Outcome(code) + (object == nullptr ? " out untouched" : " out written"));
  }
  code = TVMFFIObjectCreateOpaque(nullptr, kTVMFFIOpaquePyObject, nullptr, &object);
  Step("ObjectCreateOpaque NULL", Outcome(code, [&] { return Count(object); }));
  Step("ObjectDecRef", Outcome(TVMFFIObjectDecRef(object)));
  Step("ObjectDecRef NULL", Outcome(TVMFFIObjectDecRef(nullptr)));
  Risky("ObjectIncRef NULL", [] { return Outcome(TVMFFIObjectIncRef(nullptr)); });
  Risky("ObjectCreateOpaque(..., NULL)", [] {
    return Outcome(TVMFFIObjectCreateOpaque(nullptr, kTVMFFIOpaquePyObject, nullptr, nullptr));
  });
}

static void* AllocateOnce(size_t size, size_t alignment, int32_t, void*) {
  return reinterpret_cast<void*>(size * 1000 + alignment);
}

static void Allocators() {
  TVMFFICustomAllocator* builtin = TVMFFIGetCustomAllocator();
  Step("GetCustomAllocator", builtin != nullptr && builtin->context == nullptr ? "built in" : "odd");
  for (size_t size : {1, 24, 100}) {
    char* body = static_cast<char*>(builtin->allocate(size, 8, 64, builtin->context));
    memset(body, 1, size);
    auto* header = reinterpret_cast<TVMFFIObjectAllocHeader*>(body - sizeof(TVMFFIObjectAllocHeader));
    Step("  allocate " + Number(size), reinterpret_cast<uintptr_t>(body) % 16 == 0 && header->delete_space != nullptr ? "ok" : "odd");
    header->delete_space(body);
  }
  TVMFFICustomAllocator mine{AllocateOnce, nullptr};
  Step("SetCustomAllocator", Outcome(TVMFFISetCustomAllocator(&mine)));
  Step("  is current", TVMFFIGetCustomAllocator() == &mine ? "yes" : "no");
  TVMFFIAny text;
  TVMFFIByteArray input = Literal("an object made meanwhile");
  Step("  not used", Outcome(TVMFFIStringFromByteArray(&input, &text), [&] { return Show(text); }));
  Release(text);
  Step("SetCustomAllocator NULL", Outcome(TVMFFISetCustomAllocator(nullptr)));
  Step("  is built in", TVMFFIGetCustomAllocator() == builtin ? "yes" : "no");
}

static void Values() {
  TVMFFIByteArray bytes = Literal("0123456789"), short_bytes = Literal("01\0");
  DLTensor tensor{};
  TVMFFIObjectHandle error = nullptr;
  TVMFFIByteArray kind = Literal("K"), message = Literal("M"), nothing = Literal("");
  TVMFFIErrorCreate(&kind, &message, &nothing, &error);
  TVMFFIAny small{};
  small.type_index = kTVMFFISmallStr;
  small.small_str_len = 3;
  memcpy(small.v_bytes, "abc", 3);
  TVMFFIAny device{};
  device.type_index = kTVMFFIDevice;
  device.v_device = {kDLCUDA, 1};
  TVMFFIAny data_type{};
  data_type.type_index = kTVMFFIDataType;
  data_type.v_dtype = {2, 32, 1};
  TVMFFIAny number{};
  number.type_index = kTVMFFIFloat;
  number.v_float64 = 0.5;
  std::vector<TVMFFIAny> views = {None(), Int(-3), Pointer(kTVMFFIBool, reinterpret_cast<void*>(1)), number, Pointer(kTVMFFIOpaquePtr, nullptr),
      Pointer(kTVMFFIOpaquePtr, reinterpret_cast<void*>(77)), data_type, device, Pointer(kTVMFFIRawStr, ""), Pointer(kTVMFFIRawStr, "seven77"),
      Pointer(kTVMFFIRawStr, "eight888"), Pointer(kTVMFFIByteArrayPtr, &bytes), Pointer(kTVMFFIByteArrayPtr, &short_bytes), small,
      Pointer(kTVMFFIUnchanged, nullptr), Pointer(20, nullptr), Pointer(63, nullptr), Pointer(-1, nullptr), Object(error)};
  for (const TVMFFIAny& view : views) {
    TVMFFIAny out = Int(-1);
    Step("AnyViewToOwnedAny " + Number(view.type_index), Outcome(TVMFFIAnyViewToOwnedAny(&view, &out), [&] { return Show(out); }));
    Release(out);
  }
  TVMFFIAny view = Pointer(kTVMFFIDLTensorPtr, &tensor), out = Int(-1);
  int code = TVMFFIAnyViewToOwnedAny(&view, &out);
  Step("AnyViewToOwnedAny DLTensor*", Outcome(code, [&] { return Number(out.type_index) + (out.v_ptr == &tensor ? " same" : " other"); }));
  Step("  error", Count(error));
  TVMFFIObjectHandle slot = error;
  view = Pointer(kTVMFFIObjectRValueRef, &slot);
  code = TVMFFIAnyViewToOwnedAny(&view, &out);
  Step("AnyViewToOwnedAny rvalue", Outcome(code, [&] { return Show(out) + (slot == nullptr ? " taken" : " left"); }));
  Step("AnyViewToOwnedAny rvalue again", Outcome(TVMFFIAnyViewToOwnedAny(&view, &out)));
  Step("  error", Count(error));
  TVMFFIObjectDecRef(error);
  Risky("AnyViewToOwnedAny raw NULL", [] {
    TVMFFIAny view = Pointer(kTVMFFIRawStr, nullptr), out;
    return Outcome(TVMFFIAnyViewToOwnedAny(&view, &out));
  });
  Risky("AnyViewToOwnedAny bytes NULL", [] {
    TVMFFIAny view = Pointer(kTVMFFIByteArrayPtr, nullptr), out;
    return Outcome(TVMFFIAnyViewToOwnedAny(&view, &out));
  });
  Risky("AnyViewToOwnedAny(NULL, out)", [] {
    TVMFFIAny out;
    return Outcome(TVMFFIAnyViewToOwnedAny(nullptr, &out));
  });
  Risky("AnyViewToOwnedAny(view, NULL)", [] {
    TVMFFIAny view = Int(1);
    return Outcome(TVMFFIAnyViewToOwnedAny(&view, nullptr));
  });
}

// --- errors --------------------------------------------------------------------------------------------------------------

static void Errors() {
  Step("ErrorMoveFromRaised", Raised());
  TVMFFIErrorSetRaisedFromCStr("ValueError", "a message");
  Step("ErrorSetRaisedFromCStr", Raised());
  TVMFFIErrorSetRaisedFromCStr("", "");
  Step("ErrorSetRaisedFromCStr empty", Raised());
  TVMFFIErrorSetRaisedFromCStr("First", "one");
  TVMFFIErrorSetRaisedFromCStr("Second", "two");
  Step("the last one wins", Raised());
  Step("and is gone", Raised());
  const char* parts[] = {"a ", nullptr, "", "b", "c"};
  for (int count : {0, 1, 2, 5, -1}) {
    TVMFFIErrorSetRaisedFromCStrParts("KeyError", parts, count);
    Step("ErrorSetRaisedFromCStrParts " + Number(count), Raised());
  }
  TVMFFIErrorSetRaisedFromCStrParts("KeyError", nullptr, 0);
  Step("ErrorSetRaisedFromCStrParts NULL 0", Raised());

  TVMFFIByteArray kind = Literal("Kind\0ly"), message = Literal("a\0b"), backtrace = Literal("  first\n"), more = Literal("  second\n"), empty{nullptr, 0};
  TVMFFIObjectHandle cause = nullptr, error = nullptr, raised = nullptr;
  Step("ErrorCreate", Outcome(TVMFFIErrorCreate(&kind, &message, &backtrace, &cause), [&] { return ShowError(cause) + " " + Count(cause); }));
  auto* cell = CellOf<TVMFFIErrorCell>(cause);
  Step("  backtrace", Quoted(cell->backtrace));
  Step("  no cause", cell->cause_chain == nullptr && cell->extra_context == nullptr ? "yes" : "no");
  for (int mode : {1, 0, 2, -1, 1}) {
    cell->update_backtrace(cause, &more, mode);
    Step("  update_backtrace " + Number(mode), Quoted(cell->backtrace) + " then " + Number(cell->backtrace.data[cell->backtrace.size]));
  }
  cell->update_backtrace(cause, &empty, 1);
  Step("  update_backtrace with nothing", Quoted(cell->backtrace));
  cell->update_backtrace(cause, &empty, 0);
  Step("  update_backtrace to nothing", Number(cell->backtrace.size));
  TVMFFIAny text;
  TVMFFIByteArray input = Literal("extra context");
  TVMFFIStringFromByteArray(&input, &text);
  int code = TVMFFIErrorCreateWithCauseAndExtraContext(&kind, &message, &backtrace, cause, text.v_obj, &error);
  Step("ErrorCreateWithCauseAndExtraContext", Outcome(code, [&] { return Count(cause) + ", " + Count(text.v_obj) + ", " + Count(error); }));
  cell = CellOf<TVMFFIErrorCell>(error);
  Step("  kept", cell->cause_chain == cause && cell->extra_context == text.v_obj ? "yes" : "no");
  TVMFFIErrorSetRaised(error);
  Step("ErrorSetRaised", Count(error));
  TVMFFIErrorSetRaised(error);
  Step("ErrorSetRaised again", Count(error));
  TVMFFIErrorMoveFromRaised(&raised);
  Step("ErrorMoveFromRaised", (raised == error ? "same " : "other ") + Count(error));
  TVMFFIObjectDecRef(raised);
  TVMFFIErrorSetRaised(error);
  TVMFFIErrorSetRaised(nullptr);
  Step("ErrorSetRaised NULL", Count(error) + " " + Raised());
  TVMFFIObjectDecRef(error);
  Step("released", Count(cause) + ", " + Count(text.v_obj));
  code = TVMFFIErrorCreateWithCauseAndExtraContext(&empty, &empty, &empty, nullptr, nullptr, &error);
  Step("ErrorCreate of nothing", Outcome(code, [&] { return Number(CellOf<TVMFFIErrorCell>(error)->kind.size) + Count(error); }));
  TVMFFIObjectDecRef(error);
  TVMFFIObjectDecRef(cause);
  Release(text);
  Risky("ErrorSetRaisedFromCStr NULL kind", [] {
    TVMFFIErrorSetRaisedFromCStr(nullptr, "m");
    return Raised();
  });
  Risky("ErrorSetRaisedFromCStr NULL message", [] {
    TVMFFIErrorSetRaisedFromCStr("K", nullptr);
    return Raised();
  });
  Risky("ErrorCreate(NULL, ...)", [] {
    TVMFFIByteArray text = Literal("x");
    TVMFFIObjectHandle out;
    return Outcome(TVMFFIErrorCreate(nullptr, &text, &text, &out));
  });
  Risky("ErrorMoveFromRaised NULL", [] {
    TVMFFIErrorMoveFromRaised(nullptr);
    return string("alive");
  });
}

static void Backtraces() {
  // The native frames depend on the library; the lines around them do not.
  for (int line : {0, 7, -7, INT32_MAX, INT32_MIN}) {
    const TVMFFIByteArray* text = TVMFFIBacktrace("a file.cc", line, "f(int)", 0);
    string shown(text->data, text->size);
    Step("Backtrace " + Number(line), Quoted(shown.data(), shown.find('\n') + 1) + " then " + Number(text->data[text->size]));
  }
  setenv("TVM_TRACEBACK_LIMIT", "0", 1);
  for (const char* file : {"a.cc", "/usr/include/c++/12/vector", "x/include/tvm/ffi/any.h", "include/tvm/ffi/function.h", ""}) {
    for (const char* function : {"f", "tvm::ffi::detail::g()", "tvm::ffi::Function::h()", "tvm::ffi::Object::i()", "_PyObject_Call", "__libc_start", "0x0", ""}) {
      Step(string("Backtrace ") + file + " " + function, Quoted(*TVMFFIBacktrace(file, 3, function, 0)));
    }
    Step(string("Backtrace ") + file + " NULL", Number(TVMFFIBacktrace(file, 3, nullptr, 0)->size));
  }
  Step("Backtrace NULL f", Number(TVMFFIBacktrace(nullptr, 3, "f", 1)->size));
  for (const char* limit : {"0", "1", " 2", "+3", "-1", "", "x", "1x", "0x1", "2147483648", "99999999999999999999", "0002"}) {
    setenv("TVM_TRACEBACK_LIMIT", limit, 1);
    const TVMFFIByteArray* text = TVMFFIBacktrace("a.cc", 3, "f", 1);
    size_t lines = 0;
    for (size_t i = 0; i < text->size; ++i) lines += text->data[i] == '\n';
    Step(string("Backtrace limit '") + limit + "'", lines <= 2 ? Number(lines) : "all");
  }
  unsetenv("TVM_TRACEBACK_LIMIT");
}

// --- functions -----------------------------------------------------------------------------------------------------------

static int AddSelf(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  if (num_args == 0) return 0;
  if (num_args == 7) return -7;
  if (num_args != 1) {
    TVMFFIErrorSetRaisedFromCStr("TypeError", "one argument");
    return -1;
  }
  *result = Int(args[0].v_int64 + (self == nullptr ? 0 : *static_cast<int*>(self)));
  return 0;
}

static int SelfIsFunction(void* self, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  *result = Int(Header(self)->type_index);
  return 0;
}

static string Call(TVMFFIObjectHandle function, std::vector<TVMFFIAny> args) {
  TVMFFIAny result = None();
  int code = TVMFFIFunctionCall(function, args.data(), static_cast<int32_t>(args.size()), &result);
  string shown = Outcome(code, [&] { return Show(result); });
  if (code == 0) Release(result);
  return shown;
}

static TVMFFIObjectHandle NewFunction(int* self) {
  TVMFFIObjectHandle function = nullptr;
  TVMFFIFunctionCreate(self, AddSelf, self == nullptr ? nullptr : CountDeleted, &function);
  return function;
}

static void Functions() {
  int self = 40;
  TVMFFIObjectHandle function = nullptr;
  int code = TVMFFIFunctionCreate(&self, AddSelf, CountDeleted, &function);
  Step("FunctionCreate", Outcome(code, [&] { return Count(function) + " type " + Number(Header(function)->type_index); }));
  auto* cell = CellOf<TVMFFIFunctionCell>(function);
  Step("  is wrapped", cell->cpp_call == nullptr && cell->safe_call != AddSelf ? "yes" : "no");
  Step("FunctionCall", Call(function, {Int(2)}));
  Step("FunctionCall leaves the result", Call(function, {}));
  Step("FunctionCall fails", Call(function, {Int(1), Int(2)}));
  Step("FunctionCall with another code", Call(function, std::vector<TVMFFIAny>(7, None())));
  TVMFFIObjectDecRef(function);
  Step("deleted", Number(self));
  code = TVMFFIFunctionCreate(nullptr, SelfIsFunction, nullptr, &function);
  Step("FunctionCreate bare", Outcome(code, [&] { return Call(function, {}); }));
  Step("  is not wrapped", CellOf<TVMFFIFunctionCell>(function)->safe_call == SelfIsFunction ? "yes" : "no");
  TVMFFIObjectDecRef(function);
  deleted = 0;
  code = TVMFFIFunctionCreate(nullptr, AddSelf, CountDeleted, &function);
  Step("FunctionCreate with deleter only", Outcome(code, [&] { return Call(function, {Int(9)}); }));
  TVMFFIObjectDecRef(function);
  Step("deleted", Number(deleted));
  Risky("FunctionCreate(self, NULL, ...)", [] {
    TVMFFIObjectHandle function = nullptr;
    int code = TVMFFIFunctionCreate(nullptr, nullptr, nullptr, &function);
    return Outcome(code, [&] { return Call(function, {}); });
  });
  Risky("FunctionCreate(..., NULL)", [] { return Outcome(TVMFFIFunctionCreate(nullptr, AddSelf, nullptr, nullptr)); });
  Risky("FunctionCall NULL", [] { return Call(nullptr, {}); });
}

static string Get(TVMFFIByteArray name) {
  TVMFFIObjectHandle found = reinterpret_cast<TVMFFIObjectHandle>(1);
  int code = TVMFFIFunctionGetGlobal(&name, &found);
  string shown = Outcome(code, [&] { return found == nullptr ? string("NULL") : Call(found, {Int(0)}) + " " + Count(found); });
  if (code == 0 && found != nullptr) TVMFFIObjectDecRef(found);
  return shown;
}

static void GlobalFunctions() {
  int one = 1, two = 2, three = 3;
  TVMFFIObjectHandle function = NewFunction(&one), other = NewFunction(&two), third = NewFunction(&three);
  TVMFFIByteArray name = Literal("all_calls.f"), empty{nullptr, 0}, odd = Literal("all_calls\0odd\xff");
  Step("FunctionGetGlobal", Get(name));
  Step("FunctionSetGlobal", Outcome(TVMFFIFunctionSetGlobal(&name, function, 0)));
  Step("FunctionGetGlobal", Get(name));
  Step("FunctionSetGlobal again", Outcome(TVMFFIFunctionSetGlobal(&name, other, 0)));
  Step("FunctionSetGlobal override", Outcome(TVMFFIFunctionSetGlobal(&name, other, 1)));
  Step("FunctionGetGlobal", Get(name));
  Step("FunctionSetGlobal empty name", Outcome(TVMFFIFunctionSetGlobal(&empty, function, 0)));
  Step("FunctionGetGlobal empty name", Get(empty));
  Step("FunctionSetGlobal odd name", Outcome(TVMFFIFunctionSetGlobal(&odd, function, 0)));
  Step("FunctionSetGlobal odd name again", Outcome(TVMFFIFunctionSetGlobal(&odd, function, 0)));
  Step("FunctionGetGlobal odd name", Get(odd));

  TVMFFIMethodInfo info{};
  info.name = name;
  info.doc = Literal("What it does.");
  info.metadata = Literal("{}");
  info.method = Object(third);
  Step("FunctionSetGlobalFromMethodInfo again", Outcome(TVMFFIFunctionSetGlobalFromMethodInfo(&info, 0)));
  Step("FunctionSetGlobalFromMethodInfo override", Outcome(TVMFFIFunctionSetGlobalFromMethodInfo(&info, 1)));
  Step("FunctionGetGlobal", Get(name));
  info.name = Literal("all_calls.g");
  for (TVMFFIAny method : {Int(1), Pointer(kTVMFFIRawStr, "text"), Pointer(kTVMFFIOpaquePtr, nullptr), None()}) {
    info.method = method;
    Step("FunctionSetGlobalFromMethodInfo of " + Number(method.type_index), Outcome(TVMFFIFunctionSetGlobalFromMethodInfo(&info, 0)));
    Risky("FunctionGetGlobal", [&] { return Get(info.name); });
  }
  info.doc = empty;
  info.metadata = empty;
  info.method = Object(third);
  Step("FunctionSetGlobalFromMethodInfo", Outcome(TVMFFIFunctionSetGlobalFromMethodInfo(&info, 1)));
  Step("FunctionGetGlobal", Get(info.name));
  Step("counts", Count(function) + ", " + Count(other) + ", " + Count(third));
  TVMFFIObjectHandle error = nullptr;
  TVMFFIErrorCreate(&name, &name, &name, &error);
  TVMFFIByteArray wrong = Literal("all_calls.wrong");
  Risky("FunctionSetGlobal of an error", [&] { return Outcome(TVMFFIFunctionSetGlobal(&wrong, error, 0)); });
  Risky("FunctionSetGlobal of NULL", [&] { return Outcome(TVMFFIFunctionSetGlobal(&wrong, nullptr, 0)); });
  Risky("FunctionSetGlobal(NULL, ...)", [&] { return Outcome(TVMFFIFunctionSetGlobal(nullptr, function, 0)); });
  Risky("FunctionGetGlobal(NULL, ...)", [&] {
    TVMFFIObjectHandle found;
    return Outcome(TVMFFIFunctionGetGlobal(nullptr, &found));
  });
  Risky("FunctionGetGlobal(..., NULL)", [&] { return Outcome(TVMFFIFunctionGetGlobal(&name, nullptr)); });
  Risky("FunctionSetGlobalFromMethodInfo NULL", [&] { return Outcome(TVMFFIFunctionSetGlobalFromMethodInfo(nullptr, 0)); });
  TVMFFIObjectDecRef(error);
  for (auto* object : {function, other, third}) TVMFFIObjectDecRef(object);
}

// --- types ---------------------------------------------------------------------------------------------------------------

static string ShowType(int32_t type_index) {
  const TVMFFITypeInfo* info = TVMFFIGetTypeInfo(type_index);
  if (info == nullptr) return "NULL " + Raised();
  string out = Number(info->type_index) + " " + Quoted(info->type_key) + " hash " + std::to_string(info->type_key_hash) + " below";
  for (int32_t i = 0; i < info->type_depth; ++i) out += " " + Number(info->type_ancestors[i]->type_index);
  return out;
}

static string ShowMembers(int32_t type_index) {
  const TVMFFITypeInfo* info = TVMFFIGetTypeInfo(type_index);
  string out = Number(info->num_fields) + " fields";
  for (int32_t i = 0; i < info->num_fields; ++i) {
    const TVMFFIFieldInfo& field = info->fields[i];
    out += "; " + Quoted(field.name) + Quoted(field.doc) + Quoted(field.metadata) + " " + Number(field.flags) + " " + Number(field.size) + " " +
           Number(field.alignment) + " " + Number(field.offset) + " " + Number(field.field_static_type_index) + " " + Show(field.default_value_or_factory);
  }
  out += "; " + Number(info->num_methods) + " methods";
  for (int32_t i = 0; i < info->num_methods; ++i) {
    const TVMFFIMethodInfo& method = info->methods[i];
    out += "; " + Quoted(method.name) + Quoted(method.doc) + Quoted(method.metadata) + " " + Number(method.flags) + " " + Show(method.method);
  }
  if (info->metadata != nullptr) {
    out += "; metadata " + Quoted(info->metadata->doc) + " " + Number(info->metadata->total_size) + " " + Number(info->metadata->structural_eq_hash_kind);
  }
  return out;
}

static int32_t NewType(TVMFFIByteArray key, int32_t depth, int32_t slots, int32_t overflow, int32_t parent, int32_t fixed = -1) {
  return TVMFFITypeGetOrAllocIndex(&key, fixed, depth, slots, overflow, parent);
}

static int GetField(void*, TVMFFIAny* out) {
  *out = Int(1);
  return 0;
}

static void Types() {
  for (int32_t type_index = 0; type_index <= 78; ++type_index) {
    if (type_index <= 13 || type_index >= 64) Step("GetTypeInfo " + Number(type_index), ShowType(type_index));
  }
  for (int32_t type_index : {-1, 14, 63, 79, 127, 1 << 20, INT32_MAX, INT32_MIN}) Risky("GetTypeInfo " + Number(type_index), [=] { return ShowType(type_index); });
  for (const char* key : {"ffi.Object", "int", "None", "DataType", "ffi.SmallStr", "ffi.Dict", "ffi.VisitInterrupt", "ffi.BigInt", "", "no.such.type",
                          "object.String", "ffi.Dic", "any"}) {
    TVMFFIByteArray text = Bytes(key);
    int32_t index = -9;
    Step(string("TypeKeyToIndex '") + key + "'", Outcome(TVMFFITypeKeyToIndex(&text, &index), [&] { return Number(index); }) + " out " + Number(index));
  }
  TVMFFIByteArray odd = Literal("odd\0\xff");
  int32_t index = -9;
  Step("TypeKeyToIndex odd", Outcome(TVMFFITypeKeyToIndex(&odd, &index)));
  Risky("TypeKeyToIndex(NULL, ...)", [] {
    int32_t index;
    return Outcome(TVMFFITypeKeyToIndex(nullptr, &index));
  });

  // New types: only differences of indices are printed, because the library's own types come
  // before.
  int32_t base = NewType(Literal("all_calls.Base"), 1, 3, 1, 64);
  auto relative = [&](int32_t index) { return index < 0 ? Number(index) : "base + " + Number(index - base); };
  Step("TypeGetOrAllocIndex base is dynamic", base >= 128 ? "yes" : "no");
  Step("TypeGetOrAllocIndex again", relative(NewType(Literal("all_calls.Base"), 7, 100, 0, -1)));
  Step("TypeGetOrAllocIndex unknown parent", relative(NewType(Literal("all_calls.Orphan"), 1, 0, 0, -2)));
  Step("TypeGetOrAllocIndex known, unknown parent", relative(NewType(Literal("all_calls.Base"), 1, 0, 0, -2)));
  int32_t child = NewType(Literal("all_calls.Child"), 2, 1, 1, base), grandchild = NewType(Literal("all_calls.Grandchild"), 3, 0, 1, child);
  Step("TypeGetOrAllocIndex child", relative(child));
  Step("TypeGetOrAllocIndex grandchild", relative(grandchild));
  Step("TypeGetOrAllocIndex second child", relative(NewType(Literal("all_calls.Child2"), 2, 0, 0, base)));
  int32_t third = NewType(Literal("all_calls.Child3"), 2, 2, 0, base);
  Step("TypeGetOrAllocIndex overflow", relative(third));
  int32_t inner = NewType(Literal("all_calls.Inner"), 3, 1, 1, third);
  Step("TypeGetOrAllocIndex inner", relative(inner));
  Step("TypeGetOrAllocIndex innermost", relative(NewType(Literal("all_calls.Innermost"), 4, 0, 1, inner)));
  Step("TypeGetOrAllocIndex odd key", relative(NewType(odd, 1, 0, 1, 64)));
  Step("TypeGetOrAllocIndex empty key", relative(NewType(Literal(""), 1, 0, 1, 64)));
  Step("TypeGetOrAllocIndex static", Number(NewType(Literal("all_calls.Static"), 1, 0, 0, 64, 120)));
  Step("GetTypeInfo static", ShowType(120));
  Step("GetTypeInfo empty key ends with", ShowType(NewType(Literal(""), 1, 0, 1, 64)).find("\"\" hash") != string::npos ? "\"\" hash" : "?");
  for (const char* key : {"all_calls.Base", "all_calls.Child", "all_calls.Grandchild", "all_calls.Innermost"}) {
    TVMFFIByteArray text = Bytes(key);
    TVMFFITypeKeyToIndex(&text, &index);
    const TVMFFITypeInfo* info = TVMFFIGetTypeInfo(index);
    string shown = relative(info->type_index) + " depth " + Number(info->type_depth) + " hash " + std::to_string(info->type_key_hash) + " below";
    for (int32_t i = 0; i < info->type_depth; ++i) {
      int32_t ancestor = info->type_ancestors[i]->type_index;
      shown += ancestor < 128 ? " " + Number(ancestor) : " " + relative(ancestor);
    }
    Step(string("GetTypeInfo ") + key, shown);
  }
  auto created = [&](int32_t index) { return index < 0 ? Number(index) + " " + Raised() : relative(index); };
  Risky("TypeGetOrAllocIndex no parent", [&] { return created(NewType(Literal("all_calls.X"), 1, 0, 0, -1)) ; });
  Risky("TypeGetOrAllocIndex parent out of range", [&] { return created(NewType(Literal("all_calls.X"), 1, 0, 0, 1 << 20)) ; });
  Risky("TypeGetOrAllocIndex reserved parent", [&] { return created(NewType(Literal("all_calls.X"), 1, 0, 0, 100)) ; });
  Risky("TypeGetOrAllocIndex wrong depth", [&] { return created(NewType(Literal("all_calls.X"), 5, 0, 0, 64)) ; });
  Risky("TypeGetOrAllocIndex no room", [&] { return created(NewType(Literal("all_calls.X"), 5, 0, 0, inner)) ; });
  Risky("TypeGetOrAllocIndex too many children", [&] {
    NewType(Literal("all_calls.Y"), 4, 0, 0, inner);
    return created(NewType(Literal("all_calls.X"), 4, 0, 0, inner));
  });
  Risky("TypeGetOrAllocIndex static conflict", [&] { return created(NewType(Literal("all_calls.X"), 1, 0, 0, 64, 65)) ; });
  Risky("TypeGetOrAllocIndex static out of range", [&] { return created(NewType(Literal("all_calls.X"), 1, 0, 0, 64, 1 << 20)) ; });
  Risky("TypeGetOrAllocIndex static below parent", [&] { return created(NewType(Literal("all_calls.X"), 2, 0, 0, base, 121)) ; });
  Risky("TypeGetOrAllocIndex NULL", [&] { return created(TVMFFITypeGetOrAllocIndex(nullptr, -1, 1, 0, 0, 64)); });

  TVMFFIFieldInfo field{};
  field.name = Literal("first");
  field.doc = Literal("The first.");
  field.metadata = Literal("{\"m\":1}");
  field.flags = kTVMFFIFieldFlagBitMaskHasDefault | kTVMFFIFieldFlagBitMaskWritable;
  field.size = 8;
  field.alignment = 8;
  field.offset = 24;
  field.getter = GetField;
  field.default_value_or_factory = Int(7);
  field.field_static_type_index = kTVMFFIInt;
  Step("TypeRegisterField", Outcome(TVMFFITypeRegisterField(base, &field), [&] { return ShowMembers(base); }));
  Step("TypeRegisterField again", Outcome(TVMFFITypeRegisterField(base, &field)));
  Step("TypeRegisterField shadows", Outcome(TVMFFITypeRegisterField(child, &field), [&] { return ShowMembers(child); }));
  field.name = Literal("no default");
  field.flags = 0;
  field.doc = field.metadata = {nullptr, 0};
  Step("TypeRegisterField without default", Outcome(TVMFFITypeRegisterField(base, &field), [&] { return ShowMembers(base); }));
  field.name = {nullptr, 0};
  field.flags = kTVMFFIFieldFlagBitMaskHasDefault;
  field.default_value_or_factory = Pointer(kTVMFFIRawStr, "a default that is copied");
  Step("TypeRegisterField without name", Outcome(TVMFFITypeRegisterField(base, &field), [&] { return ShowMembers(base); }));
  TVMFFIObjectHandle setter = NewFunction(nullptr);
  field.name = Literal("set");
  field.flags = kTVMFFIFieldFlagBitSetterIsFunctionObj;
  field.setter = setter;
  Step("TypeRegisterField with setter", Outcome(TVMFFITypeRegisterField(base, &field), [&] { return Count(setter); }));
  TVMFFIObjectDecRef(setter);
  for (int32_t unknown : {-1, -2, 100, 1 << 20, INT32_MAX}) {
    Step("TypeRegisterField " + Number(unknown), Outcome(TVMFFITypeRegisterField(unknown, &field)));
  }
  Risky("TypeRegisterField NULL", [&] { return Outcome(TVMFFITypeRegisterField(base, nullptr)); });

  TVMFFIMethodInfo method{};
  method.name = Literal("method");
  method.doc = Literal("Doc.");
  method.flags = kTVMFFIFieldFlagBitMaskIsStaticMethod;
  TVMFFIObjectHandle function = NewFunction(nullptr);
  method.method = Object(function);
  Step("TypeRegisterMethod", Outcome(TVMFFITypeRegisterMethod(base, &method), [&] { return ShowMembers(base) + Count(function); }));
  Step("TypeRegisterMethod again", Outcome(TVMFFITypeRegisterMethod(base, &method), [&] { return ShowMembers(base); }));
  method.method = Int(3);
  Step("TypeRegisterMethod of an int", Outcome(TVMFFITypeRegisterMethod(base, &method), [&] { return ShowMembers(base); }));
  method.method = Pointer(kTVMFFIRawStr, "a method that is copied");
  Step("TypeRegisterMethod of a text", Outcome(TVMFFITypeRegisterMethod(base, &method), [&] { return ShowMembers(base); }));
  Step("TypeRegisterMethod unknown", Outcome(TVMFFITypeRegisterMethod(1 << 20, &method)));
  Risky("TypeRegisterMethod NULL", [&] { return Outcome(TVMFFITypeRegisterMethod(base, nullptr)); });
  TVMFFIObjectDecRef(function);

  TVMFFITypeMetadata metadata{};
  metadata.doc = Literal("A base.");
  metadata.total_size = 48;
  metadata.structural_eq_hash_kind = kTVMFFISEqHashKindDAGNode;
  Step("TypeRegisterMetadata", Outcome(TVMFFITypeRegisterMetadata(base, &metadata), [&] { return ShowMembers(base); }));
  Step("TypeRegisterMetadata again", Outcome(TVMFFITypeRegisterMetadata(base, &metadata)));
  Step("TypeRegisterMetadata of ffi.Object", Outcome(TVMFFITypeRegisterMetadata(64, &metadata)));
  Step("TypeRegisterMetadata unknown", Outcome(TVMFFITypeRegisterMetadata(-1, &metadata)));
  Risky("TypeRegisterMetadata NULL", [&] { return Outcome(TVMFFITypeRegisterMetadata(child, nullptr)); });
}

static string ShowColumn(TVMFFIByteArray name, int32_t at) {
  const TVMFFITypeAttrColumn* column = TVMFFIGetTypeAttrColumn(&name);
  if (column == nullptr) return "NULL";
  bool within = at >= column->begin_index && at - column->begin_index < column->size;
  return Number(column->begin_index) + " " + (column->size == 0 ? "empty" : "filled") + (column->data == nullptr ? " NULL" : " data") +
         (within ? " " + Show(column->data[at - column->begin_index]) : " beyond");
}

static void Attributes() {
  for (const char* name : {"__any_hash__", "__any_equal__", "__ffi_convert__", "__ffi_shallow_copy__", "__ffi_repr__", "__ffi_hash__", "__ffi_eq__",
                           "__ffi_compare__", "__ffi_new__", "__ffi_init__", "__ffi_type_final__", "__ffi_enum__", "__data_to_json__", "__data_from_json__",
                           "__s_equal__", "__s_hash__", "__s_visit__", "__s_mutate__", "__s_maybe_inplace_mutate__", "__no_such__", ""}) {
    TVMFFIByteArray text = Bytes(name);
    Step(string("GetTypeAttrColumn ") + name, TVMFFIGetTypeAttrColumn(&text) == nullptr ? "NULL" : "exists");
  }
  TVMFFIByteArray name = Literal("all_calls.attr"), odd = Literal("odd\0name"), empty{nullptr, 0};
  TVMFFIAny none = None(), one = Int(1), text = Pointer(kTVMFFIRawStr, "text that is copied");
  Step("TypeRegisterAttr sentinel", Outcome(TVMFFITypeRegisterAttr(0, &name, &none), [&] { return ShowColumn(name, 0); }));
  const TVMFFITypeAttrColumn* address = TVMFFIGetTypeAttrColumn(&name);
  Step("TypeRegisterAttr", Outcome(TVMFFITypeRegisterAttr(70, &name, &one), [&] { return ShowColumn(name, 70); }));
  Step("TypeRegisterAttr again", Outcome(TVMFFITypeRegisterAttr(70, &name, &one)));
  Step("TypeRegisterAttr below", Outcome(TVMFFITypeRegisterAttr(3, &name, &text), [&] { return ShowColumn(name, 3); }));
  Step("TypeRegisterAttr between", ShowColumn(name, 50));
  Step("TypeRegisterAttr none", Outcome(TVMFFITypeRegisterAttr(50, &name, &none), [&] { return ShowColumn(name, 50); }));
  Step("TypeRegisterAttr after none", Outcome(TVMFFITypeRegisterAttr(50, &name, &one), [&] { return ShowColumn(name, 50); }));
  Step("TypeRegisterAttr unregistered type", Outcome(TVMFFITypeRegisterAttr(3000, &name, &one), [&] { return ShowColumn(name, 3000); }));
  Step("TypeRegisterAttr sentinel again", Outcome(TVMFFITypeRegisterAttr(0, &name, &one), [&] { return ShowColumn(name, 0); }));
  Step("GetTypeAttrColumn beyond", ShowColumn(name, 3001));
  Step("the column stays", TVMFFIGetTypeAttrColumn(&name) == address ? "yes" : "no");
  Step("TypeRegisterAttr odd name", Outcome(TVMFFITypeRegisterAttr(64, &odd, &one), [&] { return ShowColumn(odd, 64); }));
  Step("TypeRegisterAttr odd name again", Outcome(TVMFFITypeRegisterAttr(64, &odd, &one)));
  Step("TypeRegisterAttr empty name", Outcome(TVMFFITypeRegisterAttr(64, &empty, &one), [&] { return ShowColumn(empty, 64); }));
  Risky("TypeRegisterAttr -1", [&] { return Outcome(TVMFFITypeRegisterAttr(-1, &name, &one)); });
  Risky("TypeRegisterAttr INT32_MIN", [&] { return Outcome(TVMFFITypeRegisterAttr(INT32_MIN, &name, &one)); });
  Risky("TypeRegisterAttr(..., NULL, ...)", [&] { return Outcome(TVMFFITypeRegisterAttr(64, nullptr, &one)); });
  Risky("TypeRegisterAttr(..., NULL)", [&] { return Outcome(TVMFFITypeRegisterAttr(65, &name, nullptr)); });
  Risky("GetTypeAttrColumn NULL", [] {
    const void* column = TVMFFIGetTypeAttrColumn(nullptr);
    return column == nullptr ? "NULL " + Raised() : string("?");
  });
}

// --- tensors -------------------------------------------------------------------------------------------------------------

// An address for data that is not read.
static void* const values = reinterpret_cast<void*>(0x10000);

template <typename Managed>
static void CountGivenBack(Managed* self) {
  ++*static_cast<int*>(self->manager_ctx);
}

static string ShowTensor(const DLTensor& tensor) {
  string out = tensor.data == values ? "values" : tensor.data == nullptr ? "NULL" : "elsewhere";
  out += " +" + Number(tensor.byte_offset) + " on " + Number(tensor.device.device_type) + ":" + Number(tensor.device.device_id) + " " +
         Number(tensor.dtype.code) + "/" + Number(tensor.dtype.bits) + "/" + Number(tensor.dtype.lanes) + " shape";
  for (int32_t i = 0; i < tensor.ndim; ++i) out += " " + Number(tensor.shape[i]);
  out += tensor.strides == nullptr ? " strides NULL" : " strides";
  for (int32_t i = 0; tensor.strides != nullptr && i < tensor.ndim; ++i) out += " " + Number(tensor.strides[i]);
  return out;
}

static string ShowTensor(TVMFFIObjectHandle tensor) {
  return ShowTensor(*CellOf<DLTensor>(tensor)) + " " + Count(tensor) + " type " + Number(Header(tensor)->type_index);
}

struct Prototype {
  std::vector<int64_t> shape, strides;
  DLTensor tensor;

  Prototype(std::vector<int64_t> shape_, std::vector<int64_t> strides_, bool with_strides)
      : shape(std::move(shape_)), strides(std::move(strides_)) {
    shape.reserve(1);
    strides.reserve(1);
    tensor = DLTensor{values, {kDLCPU, 0}, static_cast<int32_t>(shape.size()), {kDLFloat, 32, 1}, shape.data(),
        with_strides ? strides.data() : nullptr, 0};
  }
};

static string Import(const DLTensor& tensor, int32_t alignment, int32_t contiguous, uint64_t flags, bool versioned) {
  int given_back = 0;
  TVMFFIObjectHandle out = nullptr;
  DLManagedTensor managed{tensor, &given_back, CountGivenBack<DLManagedTensor>};
  DLManagedTensorVersioned managed_versioned{{1, 0}, &given_back, CountGivenBack<DLManagedTensorVersioned>, flags, tensor};
  int code = versioned ? TVMFFITensorFromDLPackVersioned(&managed_versioned, alignment, contiguous, &out)
                       : TVMFFITensorFromDLPack(&managed, alignment, contiguous, &out);
  string shown = Outcome(code, [&] { return ShowTensor(out); }) + " given back " + Number(given_back);
  if (code == 0) {
    TVMFFIObjectDecRef(out);
    shown += " then " + Number(given_back);
  }
  return shown;
}

static void Tensors() {
  for (bool versioned : {false, true}) {
    string name = versioned ? "TensorFromDLPackVersioned" : "TensorFromDLPack";
    for (bool with_strides : {false, true}) {
      Prototype scalar({}, {}, with_strides), matrix({2, 3}, {4, 1}, with_strides), empty({2, 0}, {7, 7}, with_strides);
      for (Prototype* prototype : {&scalar, &matrix, &empty}) {
        for (int contiguous : {0, 1, 5}) Step(name, Import(prototype->tensor, 0, contiguous, 0, versioned));
      }
      matrix.tensor.byte_offset = 4;
      for (int alignment : {1, 2, 3, 4, 8, 64, -8}) Step(name + " aligned to " + Number(alignment), Import(matrix.tensor, alignment, 0, 0, versioned));
      matrix.tensor.device = {kDLOpenCL, 3};
      for (int alignment : {1, 4, 8}) Step(name + " by offset aligned to " + Number(alignment), Import(matrix.tensor, alignment, 1, 0, versioned));
      matrix.tensor.device = {kDLCUDA, 1};
      matrix.tensor.data = reinterpret_cast<void*>(12);
      for (int alignment : {4, 8, 16}) Step(name + " on CUDA aligned to " + Number(alignment), Import(matrix.tensor, alignment, 0, 0, versioned));
    }
    for (int round = 0; round < 200; ++round) {
      std::vector<int64_t> shape, strides;
      int64_t stride = 1;
      for (uint64_t ndim = Random(5); ndim > 0; --ndim) {
        shape.insert(shape.begin(), static_cast<int64_t>(Random(4)));
        strides.insert(strides.begin(), Random(8) == 0 ? 9 : stride);
        stride *= shape.front();
      }
      Step(name + " contiguous", Import(Prototype(shape, strides, true).tensor, 0, 1, 0, versioned));
    }
  }
  Prototype vector({4}, {1}, true);
  for (uint64_t flags : {1, 2, 3, 4, 5, 8}) Step("TensorFromDLPackVersioned flags " + Number(flags), Import(vector.tensor, 0, 0, flags, true));
  Risky("TensorFromDLPack of -1 dimensions", [&] {
    Prototype odd({4}, {1}, true);
    odd.tensor.ndim = -1;
    odd.tensor.strides = nullptr;
    return Import(odd.tensor, 0, 1, 0, false);
  });
  Risky("TensorFromDLPack without shape", [&] {
    Prototype odd({4}, {1}, false);
    odd.tensor.shape = nullptr;
    return Import(odd.tensor, 0, 1, 0, false);
  });
  Risky("TensorFromDLPack NULL", [&] {
    TVMFFIObjectHandle out;
    return Outcome(TVMFFITensorFromDLPack(nullptr, 0, 0, &out));
  });
  Risky("TensorFromDLPackVersioned NULL", [&] {
    TVMFFIObjectHandle out;
    return Outcome(TVMFFITensorFromDLPackVersioned(nullptr, 0, 0, &out));
  });

  int given_back = 0;
  Prototype matrix({2, 3}, {3, 1}, true);
  DLManagedTensorVersioned managed{{1, 0}, &given_back, CountGivenBack<DLManagedTensorVersioned>, 0, matrix.tensor};
  TVMFFIObjectHandle tensor = nullptr, view = nullptr;
  TVMFFITensorFromDLPackVersioned(&managed, 0, 0, &tensor);
  DLManagedTensor* exported = nullptr;
  Step("TensorToDLPack", Outcome(TVMFFITensorToDLPack(tensor, &exported), [&] { return ShowTensor(exported->dl_tensor) + " " + Count(tensor); }));
  exported->deleter(exported);
  DLManagedTensorVersioned* exported_versioned = nullptr;
  Step("TensorToDLPackVersioned", Outcome(TVMFFITensorToDLPackVersioned(tensor, &exported_versioned), [&] {
         return ShowTensor(exported_versioned->dl_tensor) + " " + Count(tensor) + " version " + Number(exported_versioned->version.major) + "." +
                Number(exported_versioned->version.minor) + " flags " + Number(exported_versioned->flags);
       }));
  exported_versioned->deleter(exported_versioned);
  Step("  given back", Count(tensor));
  Prototype part({2, 2}, {1, 3}, true), bare({2}, {1}, false), scalar({}, {}, true), bare_scalar({}, {}, false);
  part.tensor.byte_offset = 8;
  part.tensor.data = nullptr;
  for (Prototype* prototype : {&part, &bare, &scalar, &bare_scalar}) {
    view = nullptr;
    int code = TVMFFITensorCreateUnsafeView(tensor, &prototype->tensor, &view);
    Step("TensorCreateUnsafeView", Outcome(code, [&] { return ShowTensor(view) + "; source " + Count(tensor); }));
    if (code == 0) {
      bool own = CellOf<DLTensor>(view)->shape != prototype->tensor.shape || prototype->tensor.ndim == 0;
      Step("  copies its shape", own ? "yes" : "no");
      TVMFFIObjectDecRef(view);
    }
  }
  Risky("TensorCreateUnsafeView of -1 dimensions", [&] {
    Prototype odd({4}, {1}, true);
    odd.tensor.ndim = -1;
    return Outcome(TVMFFITensorCreateUnsafeView(tensor, &odd.tensor, &view));
  });
  Risky("TensorCreateUnsafeView(tensor, NULL, ...)", [&] { return Outcome(TVMFFITensorCreateUnsafeView(tensor, nullptr, &view)); });
  Risky("TensorCreateUnsafeView(NULL, ...)", [&] { return Outcome(TVMFFITensorCreateUnsafeView(nullptr, &part.tensor, &view)); });
  Risky("TensorToDLPack NULL", [&] { return Outcome(TVMFFITensorToDLPack(nullptr, &exported)); });
  Risky("TensorToDLPackVersioned NULL", [&] { return Outcome(TVMFFITensorToDLPackVersioned(nullptr, &exported_versioned)); });
  Step("source", Count(tensor) + " given back " + Number(given_back));
  TVMFFIObjectDecRef(tensor);
  Step("source gone", Number(given_back));
}

// --- handles and environment ---------------------------------------------------------------------------------------------

static int init_calls = 0;
static int InitSeven(void** result) {
  ++init_calls;
  *result = reinterpret_cast<void*>(7);
  return 0;
}
static int InitNothing(void**) { return 0; }
static int InitFails(void** result) {
  *result = reinterpret_cast<void*>(8);
  TVMFFIErrorSetRaisedFromCStr("InitError", "init failed");
  return -3;
}
static int DeinitCode(void* handle) { return handle == reinterpret_cast<void*>(7) ? 0 : 5; }

static void Handles() {
  void* handle = nullptr;
  auto shown = [&] { return Number(reinterpret_cast<intptr_t>(handle)); };
  Step("HandleInitOnce fails", Outcome(TVMFFIHandleInitOnce(&handle, InitFails)) + " " + shown());
  Step("HandleInitOnce nothing", Outcome(TVMFFIHandleInitOnce(&handle, InitNothing)) + " " + shown());
  Step("HandleInitOnce", Outcome(TVMFFIHandleInitOnce(&handle, InitSeven)) + " " + shown());
  Step("HandleInitOnce again", Outcome(TVMFFIHandleInitOnce(&handle, InitFails)) + " " + shown() + " calls " + Number(init_calls));
  Step("HandleDeinitOnce", Outcome(TVMFFIHandleDeinitOnce(&handle, DeinitCode)) + " " + shown());
  Step("HandleDeinitOnce again", Outcome(TVMFFIHandleDeinitOnce(&handle, DeinitCode)) + " " + shown());
  handle = &handle;
  int code = TVMFFIHandleDeinitOnce(&handle, DeinitCode);
  Step("HandleDeinitOnce fails", Number(code) + " " + Raised() + " " + shown());
  Risky("HandleInitOnce NULL", [] { return Outcome(TVMFFIHandleInitOnce(nullptr, InitSeven)); });
  Risky("HandleInitOnce without function", [] {
    void* handle = nullptr;
    return Outcome(TVMFFIHandleInitOnce(&handle, nullptr));
  });
  Risky("HandleDeinitOnce NULL", [] { return Outcome(TVMFFIHandleDeinitOnce(nullptr, DeinitCode)); });
}

static string Stream(int32_t device_type, int32_t device_id) {
  return Number(reinterpret_cast<intptr_t>(TVMFFIEnvGetStream(device_type, device_id)));
}

static void Streams() {
  Step("EnvGetStream", Stream(2, 0));
  for (auto [device_type, device_id, stream] : {std::tuple{2, 0, 11}, {2, 3, 12}, {2, 0, 13}, {10, 1, 14}, {0, 0, 15}, {2, 0, 0}}) {
    TVMFFIStreamHandle previous = reinterpret_cast<void*>(99);
    int code = TVMFFIEnvSetStream(device_type, device_id, reinterpret_cast<void*>(stream), &previous);
    Step("EnvSetStream " + Number(device_type) + ":" + Number(device_id),
         Outcome(code) + " was " + Number(reinterpret_cast<intptr_t>(previous)) + " is " + Stream(device_type, device_id));
  }
  Step("EnvSetStream without previous", Outcome(TVMFFIEnvSetStream(2, 1, reinterpret_cast<void*>(16), nullptr)) + Stream(2, 1));
  for (auto [device_type, device_id] : {std::pair{2, 2}, {2, 3}, {2, 4}, {3, 0}, {10, 1}, {1000, 1000}, {-1, 0}, {2, -1}}) {
    Step("EnvGetStream " + Number(device_type) + ":" + Number(device_id), Stream(device_type, device_id));
  }
  Risky("EnvSetStream -1:0", [] { return Outcome(TVMFFIEnvSetStream(-1, 0, nullptr, nullptr)); });
  Risky("EnvSetStream 2:-1", [] { return Outcome(TVMFFIEnvSetStream(2, -1, nullptr, nullptr)); });
}

static DLManagedTensorVersioned allocated{};
static int allocations = 0;
static void GiveBackAllocated(DLManagedTensorVersioned*) { --allocations; }
static int Allocate(DLTensor* prototype, DLManagedTensorVersioned** out, void* context, void (*set_error)(void*, const char*, const char*)) {
  switch (prototype->dtype.bits) {
    case 1:
      set_error(context, "MemoryError", "no memory");
      return -1;
    case 2:
      return 5;
    case 3:
      return 0;
    default:
      ++allocations;
      allocated.dl_tensor = *prototype;
      allocated.deleter = GiveBackAllocated;
      allocated.version = {1, 1};
      *out = &allocated;
      return 0;
  }
}

static string ShowAllocator() {
  auto* allocator = TVMFFIEnvGetDLPackManagedTensorAllocator();
  return allocator == nullptr ? "NULL" : allocator == Allocate ? "ours" : "another";
}

static string AllocateTensor(Prototype prototype, uint8_t bits) {
  prototype.tensor.dtype.bits = bits;
  TVMFFIObjectHandle tensor = nullptr;
  int code = TVMFFIEnvTensorAlloc(&prototype.tensor, &tensor);
  string shown = Outcome(code, [&] { return ShowTensor(tensor) + " alive " + Number(allocations); });
  if (code == 0) TVMFFIObjectDecRef(tensor);
  return shown + " alive " + Number(allocations);
}

static int signals = 0, gil = 0;
static int CheckSignals() { return signals; }
static void* EnsureGil() { return &++gil; }
static void ReleaseGil(void*) { gil += 10; }

static void Environment() {
  Prototype matrix({2, 3}, {3, 1}, false), strided({2, 2}, {9, 1}, true), scalar({}, {}, false);
  Step("EnvTensorAlloc without allocator", AllocateTensor(matrix, 32));
  Step("EnvGetDLPackManagedTensorAllocator", ShowAllocator());
  DLPackManagedTensorAllocator previous = Allocate;
  Step("EnvSetDLPackManagedTensorAllocator", Outcome(TVMFFIEnvSetDLPackManagedTensorAllocator(Allocate, 0, &previous)) + (previous ? " had" : " NULL"));
  Step("EnvGetDLPackManagedTensorAllocator", ShowAllocator());
  for (uint8_t bits : {1, 2, 3, 32}) Step("EnvTensorAlloc " + Number(bits), AllocateTensor(matrix, bits));
  Step("EnvTensorAlloc strided", AllocateTensor(strided, 32));
  Step("EnvTensorAlloc scalar", AllocateTensor(scalar, 32));
  Step("EnvSetDLPackManagedTensorAllocator NULL", Outcome(TVMFFIEnvSetDLPackManagedTensorAllocator(nullptr, 0, &previous)) + (previous ? " had" : " NULL"));
  Step("EnvGetDLPackManagedTensorAllocator", ShowAllocator());
  Step("EnvSetDLPackManagedTensorAllocator global", Outcome(TVMFFIEnvSetDLPackManagedTensorAllocator(Allocate, 1, nullptr)));
  Step("EnvSetDLPackManagedTensorAllocator NULL", Outcome(TVMFFIEnvSetDLPackManagedTensorAllocator(nullptr, 0, &previous)) + (previous ? " had" : " NULL"));
  Step("EnvGetDLPackManagedTensorAllocator", ShowAllocator());
  Step("EnvSetDLPackManagedTensorAllocator NULL", Outcome(TVMFFIEnvSetDLPackManagedTensorAllocator(nullptr, 1, &previous)) + (previous ? " had" : " NULL"));
  Step("EnvGetDLPackManagedTensorAllocator", ShowAllocator());
  Risky("EnvTensorAlloc NULL", [] {
    TVMFFIObjectHandle out;
    TVMFFIEnvSetDLPackManagedTensorAllocator(Allocate, 0, nullptr);
    return Outcome(TVMFFIEnvTensorAlloc(nullptr, &out));
  });

  Step("EnvCheckSignals", Outcome(TVMFFIEnvCheckSignals()));
  for (const char* name : {"PyErr_CheckSignals", "PyGILState_Ensure", "PyGILState_Release", "Py_IncRef", ""}) {
    void* function = strcmp(name, "PyErr_CheckSignals") == 0  ? reinterpret_cast<void*>(CheckSignals)
                     : strcmp(name, "PyGILState_Ensure") == 0 ? reinterpret_cast<void*>(EnsureGil)
                                                              : reinterpret_cast<void*>(ReleaseGil);
    if (strcmp(name, "PyGILState_Ensure") == 0) Risky("EnvCheckSignals without GIL functions", [] { return Outcome(TVMFFIEnvCheckSignals()); });
    Step(string("EnvRegisterCAPI '") + name + "'", Outcome(TVMFFIEnvRegisterCAPI(name, function)));
  }
  Step("EnvCheckSignals", Outcome(TVMFFIEnvCheckSignals()) + " gil " + Number(gil));
  signals = 4;
  Step("EnvCheckSignals raised", Outcome(TVMFFIEnvCheckSignals()) + " gil " + Number(gil));
  Step("EnvRegisterCAPI NULL function", Outcome(TVMFFIEnvRegisterCAPI("PyErr_CheckSignals", nullptr)));
  Step("EnvCheckSignals", Outcome(TVMFFIEnvCheckSignals()) + " gil " + Number(gil));
  Risky("EnvRegisterCAPI NULL", [] { return Outcome(TVMFFIEnvRegisterCAPI(nullptr, nullptr)); });
}

static void Modules() {
  int self = 1;
  TVMFFIObjectHandle function = NewFunction(&self), found = nullptr;
  TVMFFIByteArray import = Literal("all_calls.import");
  TVMFFIFunctionSetGlobal(&import, function, 0);
  for (const char* name : {"all_calls.import", "all_calls.nothing", ""}) {
    Risky(string("EnvModLookupFromImports(NULL, '") + name + "', ...)", [&] {
      int code = TVMFFIEnvModLookupFromImports(nullptr, name, &found);
      return Outcome(code, [&] { return found == function ? "found " + Count(function) : string("other"); });
    });
  }
  Step("EnvModRegisterContextSymbol", Outcome(TVMFFIEnvModRegisterContextSymbol("all_calls_symbol", &self)));
  Step("EnvModRegisterContextSymbol again", Outcome(TVMFFIEnvModRegisterContextSymbol("all_calls_symbol", &found)));
  Step("EnvModRegisterContextSymbol NULL value", Outcome(TVMFFIEnvModRegisterContextSymbol("all_calls_null", nullptr)));
  Step("EnvModRegisterSystemLibSymbol", Outcome(TVMFFIEnvModRegisterSystemLibSymbol("__tvm_ffi_all_calls", reinterpret_cast<void*>(AddSelf))));
  Step("EnvModRegisterSystemLibSymbol same", Outcome(TVMFFIEnvModRegisterSystemLibSymbol("__tvm_ffi_all_calls", reinterpret_cast<void*>(AddSelf))));
  Step("EnvModRegisterSystemLibSymbol other", Outcome(TVMFFIEnvModRegisterSystemLibSymbol("__tvm_ffi_all_calls", &self)));
  Risky("EnvModLookupFromImports(..., NULL, ...)", [] {
    TVMFFIObjectHandle found;
    return Outcome(TVMFFIEnvModLookupFromImports(nullptr, nullptr, &found));
  });
  Risky("EnvModRegisterContextSymbol NULL", [] { return Outcome(TVMFFIEnvModRegisterContextSymbol(nullptr, nullptr)); });
  Risky("EnvModRegisterSystemLibSymbol NULL", [] { return Outcome(TVMFFIEnvModRegisterSystemLibSymbol(nullptr, nullptr)); });
  TVMFFIObjectDecRef(function);
}

int main() {
  Versions();
  Texts();
  BigInts();
  DataTypes();
  Opaque();
  Allocators();
  Values();
  Errors();
  Backtraces();
  Functions();
  GlobalFunctions();
  Types();
  Attributes();
  Tensors();
  Handles();
  Streams();
  Environment();
  Modules();
  Step("left over", Raised());
  return 0;
}
