// The C++ functions that the stock library exports beside its C API, as calls of the equivalent
// global functions.
//
// A library with only the C ABI lacks these names, and some of the reference tests import them.
// With this file in their program, those tests check the global functions of the library under
// test. It is linked with the stock library as well, so that both are tested in the same way.

// These names are local to the program: exported ones would replace the stock library's own names
// inside it.
#define TVM_FFI_EXTRA_CXX_API __attribute__((visibility("hidden")))

#include <tvm/ffi/any.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/dataclass.h>
#include <tvm/ffi/extra/json.h>
#include <tvm/ffi/extra/serialization.h>
#include <tvm/ffi/extra/structural_equal.h>
#include <tvm/ffi/extra/structural_hash.h>
#include <tvm/ffi/extra/visit_error_context.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

#include <type_traits>
#include <utility>

namespace tvm {
namespace ffi {
namespace {

/// Calls the global function `name`; an error it returns is thrown.
template <typename Result, typename... Args>
Result CallGlobal(const char* name, const Args&... args) {
  Any result = Function::GetGlobalRequired(name)(args...);
  if constexpr (std::is_same_v<Result, Any>) {
    return result;
  } else {
    return std::move(result).cast<Result>();
  }
}

}  // namespace

Any DeepCopy(const Any& value) { return CallGlobal<Any>("ffi.DeepCopy", value); }
String ReprPrint(const Any& value) { return CallGlobal<String>("ffi.ReprPrint", value); }
int64_t RecursiveHash(const Any& value) { return CallGlobal<int64_t>("ffi.RecursiveHash", value); }
bool RecursiveEq(const Any& lhs, const Any& rhs) { return CallGlobal<bool>("ffi.RecursiveEq", lhs, rhs); }
bool RecursiveLt(const Any& lhs, const Any& rhs) { return CallGlobal<bool>("ffi.RecursiveLt", lhs, rhs); }
bool RecursiveLe(const Any& lhs, const Any& rhs) { return CallGlobal<bool>("ffi.RecursiveLe", lhs, rhs); }
bool RecursiveGt(const Any& lhs, const Any& rhs) { return CallGlobal<bool>("ffi.RecursiveGt", lhs, rhs); }
bool RecursiveGe(const Any& lhs, const Any& rhs) { return CallGlobal<bool>("ffi.RecursiveGe", lhs, rhs); }

json::Value ToJSONGraph(const Any& value, const Any& metadata) {
  return CallGlobal<Any>("ffi.ToJSONGraph", value, metadata);
}
Any FromJSONGraph(const json::Value& value) { return CallGlobal<Any>("ffi.FromJSONGraph", value); }

bool StructuralEqual::Equal(const Any& lhs, const Any& rhs, bool map_free_vars, bool skip_tensor_content) {
  return CallGlobal<bool>("ffi.StructuralEqual", lhs, rhs, map_free_vars, skip_tensor_content);
}
Optional<reflection::AccessPathPair> StructuralEqual::GetFirstMismatch(const Any& lhs, const Any& rhs,
                                                                       bool map_free_vars,
                                                                       bool skip_tensor_content) {
  return CallGlobal<Optional<reflection::AccessPathPair>>("ffi.GetFirstStructuralMismatch", lhs, rhs, map_free_vars,
                                                          skip_tensor_content);
}
uint64_t StructuralHash::Hash(const Any& value, bool map_free_vars, bool skip_tensor_content) {
  return static_cast<uint64_t>(
      CallGlobal<int64_t>("ffi.StructuralHash", value, map_free_vars, skip_tensor_content));
}
Array<reflection::AccessPath> VisitErrorContext::FindAccessPaths(const ObjectRef& root,
                                                                 const VisitErrorContext& visit_context,
                                                                 bool allow_prefix_match) {
  return CallGlobal<Array<reflection::AccessPath>>("ffi.VisitErrorContext.FindAccessPaths", root, visit_context,
                                                   allow_prefix_match);
}

namespace json {

Value Parse(const String& json_str, String* error_msg) {
  try {
    return CallGlobal<Any>("ffi.json.Parse", json_str);
  } catch (const Error& error) {
    if (error_msg == nullptr) throw;
    *error_msg = error.message();
    return Value(nullptr);
  }
}

String Stringify(const Value& value, const Optional<int>& indent) {
  return CallGlobal<String>("ffi.json.Stringify", value, indent);
}

}  // namespace json
}  // namespace ffi
}  // namespace tvm
