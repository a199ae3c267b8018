// Structural visit and mutate across languages: visitors, mutators and hooks of C++ code, compiled
// with the stock headers, over values of our library, and visitors and mutators of our library over
// values, hooks and callbacks of C++ code.
#include <tvm/ffi/extra/structural_mutate.h>
#include <tvm/ffi/extra/structural_visit.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/rvalue_ref.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace ffi = tvm::ffi;
using ffi::Any;
using ffi::AnyView;
using ffi::Expected;
using ffi::Function;
using ffi::InplaceMode;
using ffi::ObjectRef;
using ffi::Optional;
using ffi::StructuralMutator;
using ffi::StructuralMutatorObj;
using ffi::StructuralVisitor;
using ffi::StructuralVisitorObj;
using ffi::UnchangedOr;
using ffi::VisitInterrupt;
using Values = ffi::Array<Any>;
using Callbacks = ffi::Array<ffi::Tuple<int32_t, Function>>;

#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) {                                                              \
      std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                  \
    }                                                                                \
  } while (0)

static Function Global(const char* name) { return Function::GetGlobalRequired(name); }

// The error that the action throws.
template <typename Action>
static ffi::Error Caught(Action action) {
  try {
    action();
  } catch (const ffi::Error& error) {
    return error;
  }
  std::fprintf(stderr, "expected an error\n");
  std::exit(1);
}

// A tree node whose fields are visited through reflection.
class NodeObj : public ffi::Object {
 public:
  Any left, right;
  NodeObj(Any left, Any right) : left(std::move(left)), right(std::move(right)) {}
  explicit NodeObj(ffi::UnsafeInit) {}
  static constexpr bool _type_mutable = true;
  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("traversal.Node", NodeObj, ffi::Object);
};

class VarObj : public ffi::Object {
 public:
  Any type;
  explicit VarObj(Any type) : type(std::move(type)) {}
  explicit VarObj(ffi::UnsafeInit) {}
  static constexpr bool _type_mutable = true;
  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindFreeVar;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("traversal.Var", VarObj, ffi::Object);
};

class FuncObj : public ffi::Object {
 public:
  Any param, pattern, body;
  FuncObj(Any param, Any pattern, Any body)
      : param(std::move(param)), pattern(std::move(pattern)), body(std::move(body)) {}
  explicit FuncObj(ffi::UnsafeInit) {}
  static constexpr bool _type_mutable = true;
  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("traversal.Func", FuncObj, ffi::Object);
};

// A node with native hooks, which visit only `child`.
class HookedObj : public ffi::Object {
 public:
  Any child, other;
  HookedObj(Any child, Any other) : child(std::move(child)), other(std::move(other)) {}
  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("traversal.Hooked", HookedObj, ffi::Object);

  static Expected<Optional<VisitInterrupt>> Visit(StructuralVisitorObj* visitor, AnyView value) noexcept {
    const auto* self = ffi::detail::AnyUnsafe::RawObjectPtrFromAnyViewAfterCheck<const HookedObj>(value);
    return visitor->WithDefRegionKind(kTVMFFIDefRegionKindSimple,
                                      [&] { return visitor->VisitExpected(self->child); });
  }
  static Expected<UnchangedOr<Any>> Mutate(StructuralMutatorObj* mutator, AnyView value) noexcept {
    const auto* self = ffi::detail::AnyUnsafe::RawObjectPtrFromAnyViewAfterCheck<const HookedObj>(value);
    TVM_FFI_S_MUTATE_ASSIGN_OR_RETURN(UnchangedOr<Any>, child, mutator->MutateExpected(self->child));
    if (child.UnchangedOrSameAs(self->child)) return ffi::Unchanged();
    auto copy = ffi::make_object<HookedObj>(*self);
    copy->child = std::move(child).ValueOrUnchanged(std::move(copy->child));
    return Any(ObjectRef(copy));
  }
  static Expected<UnchangedOr<Any>> MutateInplace(StructuralMutatorObj* mutator, AnyView value) noexcept {
    auto* self = ffi::detail::AnyUnsafe::RawObjectPtrFromAnyViewAfterCheck<HookedObj>(value);
    TVM_FFI_S_MUTATE_ASSIGN_OR_RETURN(UnchangedOr<Any>, child,
                                      mutator->MutateExpected(self->child, InplaceMode::kAllow));
    self->child = std::move(child).ValueOrUnchanged(std::move(self->child));
    return ffi::Unchanged();
  }
};

static Any Node(Any left, Any right) { return Any(ObjectRef(ffi::make_object<NodeObj>(left, right))); }
static Any Var(Any type = nullptr) { return Any(ObjectRef(ffi::make_object<VarObj>(type))); }
static Any Func(Any param, Any pattern, Any body) {
  return Any(ObjectRef(ffi::make_object<FuncObj>(param, pattern, body)));
}
static Any Hooked(Any child, Any other = nullptr) {
  return Any(ObjectRef(ffi::make_object<HookedObj>(child, other)));
}
// Passes ownership of the value: the callee becomes its only owner.
static ffi::RValueRef<ObjectRef> Moved(Any* value) {
  ObjectRef object = std::move(*value).cast<ObjectRef>();
  *value = nullptr;
  return ffi::RValueRef<ObjectRef>(std::move(object));
}
static const void* Address(const Any& value) { return value.as<ffi::Object>(); }

static void Register() {
  namespace refl = ffi::reflection;
  refl::ObjectDef<NodeObj>(refl::init(false)).def_rw("left", &NodeObj::left).def_rw("right", &NodeObj::right);
  refl::ObjectDef<VarObj>(refl::init(false)).def_rw("type", &VarObj::type);
  refl::ObjectDef<FuncObj>(refl::init(false))
      .def_rw("param", &FuncObj::param, refl::AttachFieldFlag::SEqHashDefSimple())
      .def_rw("pattern", &FuncObj::pattern, refl::AttachFieldFlag::SEqHashDefPattern())
      .def_rw("body", &FuncObj::body);
  refl::ObjectDef<HookedObj>(refl::init(false)).def_ro("child", &HookedObj::child).def_ro("other", &HookedObj::other);
  refl::TypeAttrDef<HookedObj>()
      .native_fn_attr<&HookedObj::Visit>(ffi::type_attr::kStructuralVisit)
      .native_fn_attr<&HookedObj::Mutate>(ffi::type_attr::kStructuralMutate)
      .native_fn_attr<&HookedObj::MutateInplace>(ffi::type_attr::kStructuralMaybeInplaceMutate);
}

// A visitor with its own table: it records the values that it visits, and their regions.
class RecorderObj : public StructuralVisitorObj {
 public:
  std::vector<std::pair<int32_t, int>> visited;
  int64_t stop_at = -1;
  RecorderObj() : StructuralVisitorObj(Table()) {}

 private:
  static const ffi::StructuralVisitorVTable* Table() {
    static const ffi::StructuralVisitorVTable table{&RecorderObj::VisitOne};
    return &table;
  }
  static TVMFFIAny VisitOne(StructuralVisitorObj* visitor, AnyView value) noexcept {
    auto* self = static_cast<RecorderObj*>(visitor);
    self->visited.emplace_back(value.type_index(), self->def_region_mode_);
    if (auto number = value.as<int64_t>(); number && *number == self->stop_at) {
      return ffi::detail::ExpectedUnsafe::MoveToTVMFFIAny(
          Expected<Optional<VisitInterrupt>>(Optional<VisitInterrupt>(VisitInterrupt(Any(*number)))));
    }
    return ffi::detail::ExpectedUnsafe::MoveToTVMFFIAny(self->DefaultVisitExpected(value));
  }
};

// A mutator with its own table: it adds 1 to numbers, and records variables in its own map.
class AdderObj : public StructuralMutatorObj {
 public:
  std::map<const ffi::Object*, Any> remap;
  AdderObj() : StructuralMutatorObj(Table()) {}

 private:
  static const ffi::StructuralMutatorVTable* Table() {
    static const ffi::StructuralMutatorVTable table{&Mutate<InplaceMode::kDisallow>, &Mutate<InplaceMode::kAllow>, &Get,
                                                    &Set};
    return &table;
  }
  template <InplaceMode mode>
  static TVMFFIAny Mutate(StructuralMutatorObj* mutator, AnyView value) noexcept {
    if (auto number = value.as<int64_t>()) return ffi::detail::AnyUnsafe::MoveAnyToTVMFFIAny(Any(*number + 1));
    return ffi::detail::ExpectedUnsafe::MoveToTVMFFIAny(mutator->DefaultMutateExpected(value, mode));
  }
  static TVMFFIAny Get(StructuralMutatorObj* mutator, AnyView var) noexcept {
    auto* self = static_cast<AdderObj*>(mutator);
    auto found = self->remap.find(var.as<ffi::Object>());
    return ffi::detail::AnyUnsafe::MoveAnyToTVMFFIAny(found == self->remap.end() ? Any(nullptr) : found->second);
  }
  static TVMFFIAny Set(StructuralMutatorObj* mutator, AnyView var, AnyView value) noexcept {
    static_cast<AdderObj*>(mutator)->remap[var.as<ffi::Object>()] = Any(value);
    return ffi::detail::AnyUnsafe::MoveAnyToTVMFFIAny(Any(nullptr));
  }
};

static Callbacks On(int32_t type_index, Function function) {
  return {ffi::Tuple<int32_t, Function>(type_index, std::move(function))};
}
static Function Increment() {
  return Function::FromTyped([](int64_t number) { return number + 1; });
}

// C++ visitors over our containers' hooks.
static void VisitorsOfCpp() {
  Any root = Values{1, ffi::List<Any>{Any(2), Any(ffi::String("a long text to visit"))},
                    ffi::Map<Any, Any>{{Any(3), Any(4)}}, ffi::Dict<Any, Any>{{Any(5), Node(6, Hooked(7, 8))}}};
  auto recorder = ffi::make_object<RecorderObj>();
  StructuralVisitor visitor(recorder);
  CHECK(!visitor->Visit(root).has_value());
  std::vector<std::pair<int32_t, int>> expected = {
      {ffi::TypeIndex::kTVMFFIArray, 0}, {ffi::TypeIndex::kTVMFFIInt, 0}, {ffi::TypeIndex::kTVMFFIList, 0},
      {ffi::TypeIndex::kTVMFFIInt, 0},   {ffi::TypeIndex::kTVMFFIStr, 0}, {ffi::TypeIndex::kTVMFFIMap, 0},
      {ffi::TypeIndex::kTVMFFIInt, 0},   {ffi::TypeIndex::kTVMFFIDict, 0}, {NodeObj::RuntimeTypeIndex(), 0},
      {ffi::TypeIndex::kTVMFFIInt, 0},   {HookedObj::RuntimeTypeIndex(), 0}, {ffi::TypeIndex::kTVMFFIInt, 2}};
  CHECK(recorder->visited == expected);

  // The same through the global functions, which call through the C++ table.
  recorder->visited.clear();
  CHECK(Global("ffi.StructuralVisitorVisit")(visitor, root).cast<Optional<VisitInterrupt>>() == std::nullopt);
  CHECK(recorder->visited == expected);
  recorder->visited.clear();
  Global("ffi.StructuralVisitorDefaultVisit")(visitor, root);
  expected.erase(expected.begin());
  CHECK(recorder->visited == expected);

  recorder->stop_at = 4;
  auto stopped = Global("ffi.StructuralVisitorDefaultVisit")(visitor, root).cast<Optional<VisitInterrupt>>();
  CHECK(stopped.has_value() && stopped.value()->value.cast<int64_t>() == 4);

  // The region is where C++ code keeps it, and entering one inside a pattern has no effect.
  Function kind = Global("ffi.StructuralVisitorDefRegionKind"), with = Global("ffi.StructuralVisitorWithDefRegionKind");
  int seen = with(visitor, 1, Function::FromTyped([&] {
                    int outer = static_cast<int>(visitor->def_region_kind()) * 10;
                    return outer + with(visitor, 2, Function::FromTyped([&] { return kind(visitor).cast<int>(); })).cast<int>();
                  })).cast<int>();
  CHECK(seen == 11 && visitor->def_region_kind() == kTVMFFIDefRegionKindNone);
  ffi::Error error = Caught([&] {
    with(visitor, 2, Function::FromTyped([]() -> int { TVM_FFI_THROW(ValueError) << "inside"; }));
  });
  CHECK(error.kind() == "ValueError" && visitor->def_region_kind() == kTVMFFIDefRegionKindNone);

  // A copy of a visitor lacks the data of its table; it visits by default.
  static ffi::reflection::TypeAttrColumn copies("__ffi_shallow_copy__");
  StructuralVisitor copy = copies[visitor->type_index()].cast<Function>()(visitor).cast<StructuralVisitor>();
  CHECK(!copy.same_as(visitor) && !copy->Visit(root).has_value());
}

// Our visitors over C++ values, callbacks and hooks.
static void VisitorsOfOurs() {
  Any var = Var(Node(1, 2));
  Any root = Func(var, Values{Var()}, Values{var, Hooked(var)});
  std::string trace;
  Function on_var = Function::FromTyped([&](const ObjectRef& value, int kind) {
    trace += (value.same_as(var.cast<ObjectRef>()) ? "v" : "w") + std::to_string(kind);
  });
  Function on_int = Function::FromTyped([&](int64_t value, int kind) {
    trace += "i" + std::to_string(value) + std::to_string(kind);
  });
  Callbacks with_kind = {ffi::Tuple<int32_t, Function>(VarObj::RuntimeTypeIndex(), on_var),
                         ffi::Tuple<int32_t, Function>(ffi::TypeIndex::kTVMFFIInt, on_int)};
  Global("ffi.StructuralWalk")(root, Callbacks(), with_kind, 0);
  CHECK(trace == "v2i10i20w1v0i10i20v2i10i20");

  // A callback gets our visitor and uses it through its table and its region.
  trace.clear();
  Function own = Function::FromTyped([&](const ffi::ObjectRef& value, const StructuralVisitor& visitor) {
    trace += std::to_string(visitor->def_region_kind());
    return visitor->WithDefRegionKind(kTVMFFIDefRegionKindPattern,
                                      [&] { return visitor->DefaultVisitExpected(value).value(); });
  });
  Global("ffi.StructuralVisit")(Values{Values{}, Hooked(Values{})}, On(ffi::TypeIndex::kTVMFFIObject, own));
  CHECK(trace == "0111");

  // Skip, interrupt, and a result that is neither.
  auto walk = [&](int order, Function function) {
    return Global("ffi.StructuralWalk")(Values{1, Values{2}, 3}, On(ffi::TypeIndex::kTVMFFIAny, function), Callbacks(), order);
  };
  int64_t sum = 0;
  walk(0, Function::FromTyped([&](Any value) -> int {
         if (auto number = value.as<int64_t>()) sum += *number;
         return value.as<Values>().has_value() && value.cast<Values>().size() == 1;
       }));
  CHECK(sum == 4);
  Any stopped = walk(1, Function::FromTyped([](Any value) -> Any {
    return value.as<int64_t>() == 2 ? Any(VisitInterrupt(ffi::String("two"))) : Any(nullptr);
  }));
  CHECK(stopped.cast<VisitInterrupt>()->value.cast<ffi::String>() == "two");
  ffi::Error error = Caught([&] { walk(0, Function::FromTyped([](Any) { return 1.5; })); });
  CHECK(error.message() == "CallExpected: result type mismatch, expected WalkResult, but got float");
}

// Errors say where they happened, for every visitor.
static void ErrorContexts() {
  Any inner = Node(1, nullptr), hooked = Hooked(inner), root = Node(2, hooked);
  Function fail = Function::FromTyped([](int64_t number) -> Any {
    if (number == 1) TVM_FFI_THROW(ValueError) << "one";
    return nullptr;
  });
  auto check = [&](const ffi::Error& error) {
    CHECK(error.kind() == "ValueError" && error.message() == "one");
    auto context = ffi::VisitErrorContext::TryGetFromError(error).value();
    auto pattern = context->reverse_visit_pattern;
    CHECK(pattern.size() == 3);
    CHECK(pattern[0].same_as(inner.cast<ObjectRef>()) && pattern[1].same_as(hooked.cast<ObjectRef>()));
    CHECK(pattern[2].same_as(root.cast<ObjectRef>()) && !context->prev_error_context.has_value());
    auto paths = Global("ffi.VisitErrorContext.FindAccessPaths")(root.cast<ObjectRef>(), context, false)
                     .cast<ffi::Array<ffi::reflection::AccessPath>>();
    auto expected = ffi::reflection::AccessPath::Root()->Attr("right")->Attr("child");
    CHECK(paths.size() == 1 && paths[0]->PathEqual(expected));
  };
  check(Caught([&] { Global("ffi.StructuralWalk")(root, On(ffi::TypeIndex::kTVMFFIInt, fail), Callbacks(), 0); }));
  check(Caught([&] { Global("ffi.StructuralMap")(root, On(ffi::TypeIndex::kTVMFFIInt, fail), Callbacks(), 1); }));
  check(Caught([&] {
    ffi::StructuralWalk<ffi::WalkOrder::kPreOrder>(root, [&](int64_t number) -> Expected<ffi::WalkResult> {
      fail(number);
      return ffi::WalkResult::Advance();
    });
  }));
}

// C++ mutators over our containers' hooks, and the same through the global functions.
static void MutatorsOfCpp() {
  auto increment = [](int64_t number) { return number + 1; };
  auto list = [] { return Any(ffi::List<Any>{Any(1), Any(ffi::Dict<Any, Any>{{Any(2), Any(3)}})}); };
  auto make = [&] { return Any(Values{1, ffi::Map<Any, Any>{{Any(1), list()}}, ffi::String("a text that stays the same")}); };
  auto first_of_list = [](const Any& root) {
    return root.cast<Values>()[1].cast<ffi::Map<Any, Any>>()[Any(1)].cast<ffi::List<Any>>()[0].cast<int64_t>();
  };
  Any root = make();
  Any mapped = ffi::StructuralMap<ffi::WalkOrder::kPostOrder>(root, increment);
  CHECK(Address(mapped) != Address(root) && first_of_list(root) == 1 && first_of_list(mapped) == 2);
  CHECK(mapped.cast<Values>()[2].same_as(root.cast<Values>()[2]));
  const void *outer = Address(mapped), *inner = Address(mapped.cast<Values>()[1]);
  Any again = ffi::StructuralMap<ffi::WalkOrder::kPreOrder>(std::move(mapped), increment);
  CHECK(Address(again) == outer && Address(again.cast<Values>()[1]) == inner && first_of_list(again) == 3);
  Any same = ffi::StructuralMap<ffi::WalkOrder::kPreOrder>(root, [](int64_t number) { return number; });
  CHECK(Address(same) == Address(root));

  auto object = ffi::make_object<AdderObj>();
  StructuralMutator adder(object);
  CHECK(first_of_list(Global("ffi.StructuralMutatorMutate")(adder, root)) == 2 && first_of_list(root) == 1);
  CHECK(first_of_list(Global("ffi.StructuralMutatorDefaultMutate")(adder, root)) == 2);
  CHECK(Global("ffi.StructuralMutatorDefaultMutate")(adder, 7).cast<int64_t>() == 7);
  // Through reflection, the C++ mutator records the replacement of a variable.
  Any var = Var(1);
  Any func = Global("ffi.StructuralMutatorMutate")(adder, Func(var, nullptr, Values{var, var}));
  const auto* result = func.as<FuncObj>();
  CHECK(result->param.as<VarObj>()->type.cast<int64_t>() == 2);
  CHECK(result->body.cast<Values>()[0].same_as(result->param) && result->body.cast<Values>()[1].same_as(result->param));
  CHECK(object->remap.size() == 1 && object->remap[var.as<ffi::Object>()].same_as(result->param));
  CHECK(Global("ffi.StructuralMutatorVarRemapGet")(adder, var).same_as(result->param));
  Global("ffi.StructuralMutatorVarRemapSet")(adder, func, 5);
  CHECK(object->remap[func.as<ffi::Object>()].cast<int64_t>() == 5);
}

// Our mutators over C++ values, callbacks and hooks.
static void MutatorsOfOurs() {
  Function map = Global("ffi.StructuralMap"), mutate = Global("ffi.StructuralMutate");
  Callbacks on_int = On(ffi::TypeIndex::kTVMFFIInt, Increment());
  for (int order : {0, 1}) {
    Any root = Node(1, Hooked(Values{1, Var(1)}, 1));
    Any mapped = map(root, on_int, Callbacks(), order);
    const auto* hooked = mapped.as<NodeObj>()->right.as<HookedObj>();
    CHECK(mapped.as<NodeObj>()->left.cast<int64_t>() == 2 && hooked->child.cast<Values>()[0].cast<int64_t>() == 2);
    // Hooks do not change `other`, and a variable without a definition is unchanged.
    CHECK(hooked->other.cast<int64_t>() == 1 && hooked->child.cast<Values>()[1].as<VarObj>()->type.cast<int64_t>() == 1);
    CHECK(root.as<NodeObj>()->left.cast<int64_t>() == 1);
    // Values without other references are changed in place by hooks that support it, and copied by
    // reflection.
    Any own = Hooked(Values{1, Node(1, 1)});
    const void *hook = Address(own), *array = Address(own.as<HookedObj>()->child);
    const void* node = Address(own.as<HookedObj>()->child.cast<Values>()[1]);
    own = map(Moved(&own), on_int, Callbacks(), order);
    CHECK(Address(own) == hook && Address(own.as<HookedObj>()->child) == array);
    CHECK(Address(own.as<HookedObj>()->child.cast<Values>()[1]) != node);
    CHECK(own.as<HookedObj>()->child.cast<Values>()[0].cast<int64_t>() == 2);
  }
  Any var = Var(1);
  Any func = map(Func(var, Values{var}, Values{var, Node(var, 1)}), on_int, Callbacks(), 1);
  const auto* result = func.as<FuncObj>();
  CHECK(result->body.cast<Values>()[0].same_as(result->param) && !result->param.same_as(var));
  CHECK(result->body.cast<Values>()[1].as<NodeObj>()->left.same_as(result->param));
  CHECK(result->pattern.cast<Values>()[0].same_as(result->param));

  // A callback owns the values below it, and uses our mutator through its table.
  std::string trace;
  Function own = Function::FromTyped([&](Any value, const StructuralMutator& mutator, int mode) -> Any {
    trace += std::to_string(mode);
    if (auto number = value.as<int64_t>()) return Any(*number + 1);
    if (value.as<VarObj>()) {
      Any known = mutator->VarRemapGetExpected(value).value();
      if (known != nullptr) return known;
      mutator->VarRemapSetExpected(value, Any(40)).value();
      return Any(40);
    }
    return Any(mutator->DefaultMutateExpected(value, static_cast<InplaceMode>(mode)).value());
  });
  ffi::Array<ffi::Tuple<int32_t, Function, bool>> callbacks = {
      ffi::Tuple<int32_t, Function, bool>(ffi::TypeIndex::kTVMFFIAny, own, true)};
  Any values = Values{1, Values{2}, var, var};
  const void* address = Address(values);
  Values changed = mutate(Moved(&values), callbacks).cast<Values>();
  CHECK(changed.get() == address && changed[0].cast<int64_t>() == 2 && changed[1].cast<Values>()[0].cast<int64_t>() == 3);
  CHECK(changed[2].cast<int64_t>() == 40 && changed[3].cast<int64_t>() == 40 && trace == "101000");

  // An engine written in C++ only, with callbacks that are functions, over our hooks.
  using Engine = ffi::StructuralMapDynEngine<ffi::StructuralMapEngineBase, ffi::WalkOrder::kPreOrder>;
  StructuralMutator engine(ffi::make_object<Engine>(on_int, Callbacks()));
  CHECK(engine->Mutate(Values{1}).ValueUnchecked().cast<Values>()[0].cast<int64_t>() == 2);
  ffi::Error error = Caught([&] { map(ObjectRef(engine), on_int, Callbacks(), 1).cast<Values>(); });
  CHECK(error.kind() == "TypeError");
}

// A chain of C++ nodes, whose destructor would overflow the stack, is taken apart from its top.
static void Dismantle(Any chain) {
  while (auto* node = const_cast<NodeObj*>(chain.as<NodeObj>())) {
    if (!node->unique()) return;
    Any next = std::move(node->left);
    chain = std::move(next);
  }
}

static void LongChains() {
  constexpr int64_t kLength = 1000000;
  Any chain = 0;
  for (int64_t i = 1; i <= kLength; ++i) chain = Node(std::move(chain), i);
  int64_t count = 0;
  Function counter = Function::FromTyped([&](int64_t) { ++count; });
  Callbacks on_int = On(ffi::TypeIndex::kTVMFFIInt, counter);
  Global("ffi.StructuralWalk")(chain, on_int, Callbacks(), 0);
  Global("ffi.StructuralWalk")(chain, on_int, Callbacks(), 1);
  CHECK(count == 2 * (kLength + 1));
  Any mapped = Global("ffi.StructuralMap")(chain, On(ffi::TypeIndex::kTVMFFIInt, Increment()), Callbacks(), 1);
  CHECK(mapped.as<NodeObj>()->right.cast<int64_t>() == kLength + 1);
  Dismantle(std::move(mapped));
  Dismantle(std::move(chain));

  // Hooks recurse on the stack: that ends in an error.
  ffi::Array<Any> kept;
  Any hooks = 0;
  for (int64_t i = 0; i < kLength; ++i) kept.push_back(hooks = Hooked(std::move(hooks)));
  CHECK(Caught([&] { Global("ffi.StructuralWalk")(hooks, on_int, Callbacks(), 0); }).kind() == "RecursionError");
  CHECK(Caught([&] { Global("ffi.StructuralMap")(hooks, on_int, Callbacks(), 0); }).kind() == "RecursionError");
  hooks = nullptr;
  while (!kept.empty()) kept.pop_back();
}

int main() {
  Register();
  VisitorsOfCpp();
  VisitorsOfOurs();
  ErrorContexts();
  MutatorsOfCpp();
  MutatorsOfOurs();
  LongChains();
  std::printf("traversal: all checks passed\n");
  return 0;
}
