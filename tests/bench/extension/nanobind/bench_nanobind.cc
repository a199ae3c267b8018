// The functions and the type of `cargo xtask bench python`, made with nanobind.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

struct Record {
  int64_t count;
  double scale;
  std::string label;
};

NB_MODULE(bench_nanobind, m) {
  m.def("add", [](int64_t a, int64_t b) { return a + b; }, "a"_a, "b"_a);
  m.def("half", [](double x) { return x / 2.0; }, "x"_a);
  m.def("length", [](std::string_view text) { return text.size(); }, "text"_a);
  m.def("sum_list", [](const std::vector<int64_t>& numbers) { return std::accumulate(numbers.begin(), numbers.end(), int64_t(0)); });
  m.def("nothing", []() {});
  m.def("short_text", []() { return std::string("hello"); });
  m.def("long_text", []() { return std::string("a text that is 31 characters by"); });
  m.def("divide", [](int64_t dividend, int64_t divisor) { return std::make_pair(dividend / divisor, dividend % divisor); });
  m.def("fail", [](int64_t code) -> int64_t { throw nb::value_error(("code " + std::to_string(code) + " is not allowed").c_str()); });
  m.def("apply", [](nb::callable f, int64_t x) { return nb::cast<int64_t>(f(x)); });
  m.def("element_count", [](nb::ndarray<const float, nb::ndim<1>> x) { return x.size(); });
  m.def("zeros", [](size_t length) {
    float* data = new float[length]();
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<float*>(p); });
    return nb::ndarray<nb::numpy, float, nb::ndim<1>>(data, {length}, owner);
  });
  m.def("count_of", [](const Record& record) { return record.count; });
  m.def("record", [](int64_t count) { return Record{count, 2.5, ""}; });
  nb::class_<Record>(m, "Record")
      .def(nb::init<int64_t, double, std::string>(), "count"_a, "scale"_a, "label"_a)
      .def_ro("count", &Record::count)
      .def_ro("scale", &Record::scale)
      .def_ro("label", &Record::label)
      .def("get", [](const Record& r) { return r.count; })
      .def("plus", [](const Record& r, int64_t more) { return r.count + more; });
}
