// Changes and reads containers, ours and the stock library's, with the inline code of the stock
// headers. tests/tests/abi/layouts does its own half of the work on the same containers. A status
// is 0, or -1 with the error raised in libtvm_ffi.so.
#include <tvm/ffi/big_int.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>
#include <vector>

namespace ffi = tvm::ffi;
using ffi::Any;
using Handle = TVMFFIObjectHandle;

static Any Owned(const TVMFFIAny& view) { return Any(*reinterpret_cast<const ffi::AnyView*>(&view)); }

static void Give(Any&& value, TVMFFIAny* out) { *out = ffi::detail::AnyUnsafe::MoveAnyToTVMFFIAny(std::move(value)); }

template <typename Ref>
static Ref Borrow(Handle handle) {
  return ffi::detail::ObjectUnsafe::ObjectRefFromObjectPtr<Ref>(
      ffi::detail::ObjectUnsafe::ObjectPtrFromUnowned<ffi::Object>(static_cast<TVMFFIObject*>(handle)));
}

template <typename Ref>
static Ref Take(Handle handle) {
  return ffi::detail::ObjectUnsafe::ObjectRefFromObjectPtr<Ref>(
      ffi::detail::ObjectUnsafe::ObjectPtrFromOwned<ffi::Object>(static_cast<TVMFFIObject*>(handle)));
}

template <typename Ref>
static Handle Release(Ref&& ref) {
  return ffi::detail::ObjectUnsafe::MoveObjectRefToTVMFFIObjectPtr(std::move(ref));
}

template <typename Obj>
static const Obj* As(Handle handle) {
  return reinterpret_cast<const Obj*>(handle);
}

using Array = ffi::Array<Any>;
using List = ffi::List<Any>;
using Map = ffi::Map<Any, Any>;
using Dict = ffi::Dict<Any, Any>;

// An operation on a container, with the codes of tests/tests/abi/layouts/operation.rs.
struct Operation {
  int32_t code;
  int64_t first;
  int64_t last;
  const TVMFFIAny* values;
  int64_t count;
};

enum Code : int32_t { kPush, kInsert, kInsertMany, kSet, kPop, kErase, kEraseRange, kReserve, kResize, kClear, kReverse, kAssign };

template <typename Seq>
static void ChangeSeq(Seq* seq, const Operation& op) {
  std::vector<Any> values;
  for (int64_t i = 0; i < op.count; ++i) values.push_back(Owned(op.values[i]));
  switch (op.code) {
    case kPush:
      return seq->push_back(values[0]);
    case kInsert:
      return seq->insert(seq->begin() + op.first, values[0]);
    case kInsertMany:
      return seq->insert(seq->begin() + op.first, values.begin(), values.end());
    case kSet:
      return seq->Set(op.first, values[0]);
    case kPop:
      return seq->pop_back();
    case kErase:
      return seq->erase(seq->begin() + op.first);
    case kEraseRange:
      return seq->erase(seq->begin() + op.first, seq->begin() + op.last);
    case kReserve:
      return seq->reserve(op.first);
    case kResize:
      return seq->resize(op.first);
    case kClear:
      return seq->clear();
    case kReverse:
      if constexpr (std::is_same_v<Seq, List>) return seq->GetListObj()->Reverse();
      break;
    case kAssign:
      return seq->Assign(values.begin(), values.end());
  }
  TVM_FFI_THROW(InternalError) << "no operation " << op.code;
}

// Arrays are copied on write, so the handle may change; a unique one is changed in place.
extern "C" int ArrayChange(Handle* array, const Operation* op) {
  Array taken = Take<Array>(*array);
  int status = [&] {
    TVM_FFI_SAFE_CALL_BEGIN();
    ChangeSeq(&taken, *op);
    TVM_FFI_SAFE_CALL_END();
  }();
  *array = Release(std::move(taken));
  return status;
}

extern "C" int ListChange(Handle list, const Operation* op) {
  TVM_FFI_SAFE_CALL_BEGIN();
  List borrowed = Borrow<List>(list);
  ChangeSeq(&borrowed, *op);
  TVM_FFI_SAFE_CALL_END();
}

extern "C" int64_t SeqSize(Handle seq) { return static_cast<int64_t>(As<ffi::SeqBaseObj>(seq)->size()); }
extern "C" int64_t SeqCapacity(Handle seq) { return static_cast<int64_t>(As<ffi::SeqBaseObj>(seq)->capacity()); }

extern "C" int SeqGet(Handle seq, int64_t index, TVMFFIAny* out) {
  TVM_FFI_SAFE_CALL_BEGIN();
  Give(Any(As<ffi::SeqBaseObj>(seq)->at(index)), out);
  TVM_FFI_SAFE_CALL_END();
}

// The elements, for which there is room; the caller owns them.
extern "C" void SeqElements(Handle seq, TVMFFIAny* out) {
  for (const Any& value : *As<ffi::SeqBaseObj>(seq)) Give(Any(value), out++);
}

static std::vector<Any> Values(const TVMFFIAny* values, int64_t count) {
  std::vector<Any> owned;
  for (int64_t i = 0; i < count; ++i) owned.push_back(Owned(values[i]));
  return owned;
}

extern "C" Handle NewArray(const TVMFFIAny* values, int64_t count) {
  auto owned = Values(values, count);
  return count == 0 ? Release(Array()) : Release(Array(owned.begin(), owned.end()));
}

extern "C" Handle NewList(const TVMFFIAny* values, int64_t count) {
  auto owned = Values(values, count);
  return count == 0 ? Release(List()) : Release(List(owned.begin(), owned.end()));
}

// Keys and values in turn; `count` is the number of both.
template <typename Ref>
static Handle NewMapOf(const TVMFFIAny* values, int64_t count) {
  std::vector<std::pair<Any, Any>> pairs;
  for (int64_t i = 0; i + 1 < count; i += 2) pairs.emplace_back(Owned(values[i]), Owned(values[i + 1]));
  return pairs.empty() ? Release(Ref()) : Release(Ref(pairs.begin(), pairs.end()));
}

extern "C" Handle NewMap(const TVMFFIAny* values, int64_t count) { return NewMapOf<Map>(values, count); }
extern "C" Handle NewDict(const TVMFFIAny* values, int64_t count) { return NewMapOf<Dict>(values, count); }

// Maps are copied on write, so the handle may change; a unique one is changed in place.
extern "C" void MapSet(Handle* map, const TVMFFIAny* key, const TVMFFIAny* value) {
  Map taken = Take<Map>(*map);
  taken.Set(Owned(*key), Owned(*value));
  *map = Release(std::move(taken));
}

extern "C" void MapErase(Handle* map, const TVMFFIAny* key) {
  Map taken = Take<Map>(*map);
  taken.erase(Owned(*key));
  *map = Release(std::move(taken));
}

extern "C" void MapClear(Handle* map) {
  Map taken = Take<Map>(*map);
  taken.clear();
  *map = Release(std::move(taken));
}

extern "C" void DictSet(Handle dict, const TVMFFIAny* key, const TVMFFIAny* value) {
  Borrow<Dict>(dict).Set(Owned(*key), Owned(*value));
}
extern "C" void DictErase(Handle dict, const TVMFFIAny* key) { Borrow<Dict>(dict).erase(Owned(*key)); }
extern "C" void DictClear(Handle dict) { Borrow<Dict>(dict).clear(); }

extern "C" int MapAt(Handle map, const TVMFFIAny* key, TVMFFIAny* out) {
  TVM_FFI_SAFE_CALL_BEGIN();
  Give(Any(As<ffi::MapBaseObj>(map)->at(Owned(*key))), out);
  TVM_FFI_SAFE_CALL_END();
}

extern "C" int64_t MapCount(Handle map, const TVMFFIAny* key) {
  return static_cast<int64_t>(As<ffi::MapBaseObj>(map)->count(Owned(*key)));
}

extern "C" int64_t MapSize(Handle map) { return static_cast<int64_t>(As<ffi::MapBaseObj>(map)->size()); }

// Keys and values in order, one after the other, for which there is room; the caller owns them.
extern "C" void MapEntries(Handle map, TVMFFIAny* out) {
  for (const auto& [key, value] : *As<ffi::MapBaseObj>(map)) {
    Give(Any(key), out++);
    Give(Any(value), out++);
  }
}

// The keys from the last one to the first.
extern "C" void MapKeysBackwards(Handle map, TVMFFIAny* out) {
  const auto* obj = As<ffi::MapBaseObj>(map);
  auto place = obj->end();
  for (size_t i = 0; i < obj->size(); ++i) {
    --place;
    Give(Any(place->first), out++);
  }
}

extern "C" Handle MapCopy(Handle map) {
  return ffi::detail::ObjectUnsafe::MoveObjectPtrToTVMFFIObjectPtr(ffi::MapObj::ShallowCopy(As<ffi::MapObj>(map)));
}

extern "C" Handle DictCopy(Handle dict) {
  return ffi::detail::ObjectUnsafe::MoveObjectPtrToTVMFFIObjectPtr(ffi::DictObj::ShallowCopy(As<ffi::DictObj>(dict)));
}

extern "C" uint64_t Hash(const TVMFFIAny* value) { return ffi::AnyHash()(Owned(*value)); }
extern "C" int Equal(const TVMFFIAny* left, const TVMFFIAny* right) { return ffi::AnyEqual()(Owned(*left), Owned(*right)); }

// -1, 0 or 1, and whether the text ends with a NUL.
extern "C" int CompareStrings(const TVMFFIAny* left, const TVMFFIAny* right) {
  auto a = Owned(*left).cast<ffi::String>(), b = Owned(*right).cast<ffi::String>();
  if (a.c_str()[a.size()] != 0 || b.c_str()[b.size()] != 0) return 9;
  return a == b ? 0 : a < b ? -1 : 1;
}

extern "C" void JoinStrings(const TVMFFIAny* left, const TVMFFIAny* right, TVMFFIAny* out) {
  Give(Any(Owned(*left).cast<ffi::String>() + Owned(*right).cast<ffi::String>()), out);
}

// Integers of any size.
extern "C" void AddIntegers(const TVMFFIAny* left, const TVMFFIAny* right, TVMFFIAny* out) {
  Give(Any(Owned(*left).cast<ffi::BigInt>() + Owned(*right).cast<ffi::BigInt>()), out);
}

extern "C" int CompareIntegers(const TVMFFIAny* left, const TVMFFIAny* right) {
  auto a = Owned(*left).cast<ffi::BigInt>(), b = Owned(*right).cast<ffi::BigInt>();
  return a == b ? 0 : a < b ? -1 : 1;
}

using Weak = ffi::WeakObjectPtr<ffi::Object>;

extern "C" Weak* NewWeak(Handle object) {
  return new Weak(ffi::detail::ObjectUnsafe::ObjectPtrFromUnowned<ffi::Object>(static_cast<TVMFFIObject*>(object)));
}

// A new strong reference, or NULL if the object is destroyed.
extern "C" Handle WeakLock(const Weak* weak) {
  return ffi::detail::ObjectUnsafe::MoveObjectPtrToTVMFFIObjectPtr(weak->lock());
}

extern "C" void DropWeak(Weak* weak) { delete weak; }
