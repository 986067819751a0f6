#include <pybind11/stl.h>

#include "python/graph.h"
#include "scenarios/read/choice_text.h"
#include "scenarios/read/sections.h"
#include "sim/collectives/collective_models.h"

namespace baechi::python {
namespace {

/// The default of the command line: the Baechi authors' linear fit of transfers over PCIe.
constexpr Link default_link{.bandwidth = {5.7e9}, .latency = std::chrono::microseconds(134)};

/// Reads a quantity given as text with a unit or, if `of_number` is not null, as a number.
template <class T>
void read_quantity(Mistakes& mistakes, const char* what, const py::object& value,
                   std::optional<T> (*parse)(std::string_view), T (*of_number)(double),
                   const char* wanted, T& to) {
  if (value.is_none()) return;
  if (py::isinstance<py::str>(value)) {
    if (const auto parsed = parse(value.cast<std::string>())) {
      to = *parsed;
      return;
    }
  } else if (of_number != nullptr &&
             (py::isinstance<py::int_>(value) || py::isinstance<py::float_>(value))) {
    if (const double n = value.cast<double>(); n >= 0.0 && n < 0x1p62) {
      to = of_number(n);
      return;
    }
  }
  mistakes.add(fmt::format("{}: {} is not {}", what, py::repr(value).cast<std::string>(), wanted));
}

/// None as "", a number with `unit`, a list with commas.
std::string joined_words(const py::object& value, std::string_view unit = "") {
  if (value.is_none()) return "";
  if (py::isinstance<py::str>(value)) return value.cast<std::string>();
  if (!py::isinstance<py::list>(value) && !py::isinstance<py::tuple>(value))
    return py::str(value).cast<std::string>() + std::string(unit);
  std::string all;
  for (const py::handle item : value)
    all += (all.empty() ? "" : ",") + joined_words(py::reinterpret_borrow<py::object>(item), unit);
  return all;
}

template <NamedEnum E>
void read_word(Mistakes& mistakes, const char* what, const std::string& text, E& to) {
  if (text.empty()) return;
  if (const auto value = parse<E>(text)) {
    to = *value;
    return;
  }
  mistakes.add(fmt::format("{}: {}", what, not_one_of<E>(text)));
}

ClusterSetup cluster_setup(const py::object& devices, const py::object& memory,
                           const py::object& bandwidth, const py::object& latency,
                           const std::string& kind, const std::string& link, double memory_fraction,
                           const std::string& transfers, const std::string& semantics,
                           const std::string& queue, const std::string& collectives,
                           bool cache_tensors, bool overlap, const py::object& cpu_memory,
                           const std::string& host_link, const std::string& disk) {
  Mistakes mistakes;
  ClusterSetup setup;
  setup.choice.devices = read_device_words({.devices = joined_words(devices),
                                            .kind = kind,
                                            .memory = joined_words(memory, " B"),
                                            .prefix = ""},
                                           mistakes);
  setup.choice.link = default_link;
  const auto& kinds = built_in_devices();
  if (!link.empty()) {
    const auto found = kinds.links.find(link);
    if (found == kinds.links.end())
      mistakes.add(fmt::format("link: '{}' is not in 'baechi list links'", link));
    else
      setup.choice.link = found->second.link;
  }
  read_quantity<Bandwidth>(
      mistakes, "bandwidth", bandwidth, parse_bandwidth, [](double n) { return Bandwidth{n}; },
      "a rate such as '5.7 GB/s', or bytes per second", setup.choice.link.bandwidth);
  read_quantity<Duration>(mistakes, "latency", latency, parse_duration, nullptr,
                          "a time such as '134 us'", setup.choice.link.latency);
  add_host({joined_words(cpu_memory, " B"), host_link, disk, "cpu_memory", "host_link"},
           setup.choice, mistakes);
  setup.choice.memory_fraction = memory_fraction;
  read_word(mistakes, "transfers", transfers, setup.engine.transfers);
  read_word(mistakes, "semantics", semantics, setup.engine.semantics);
  read_word(mistakes, "queue", queue, setup.engine.queue);
  setup.engine.cache_tensors = cache_tensors;
  setup.engine.overlap = overlap;
  mistakes.throw_if_any();
  if (!collectives.empty()) {
    const auto named = kinds.collectives.find(collectives);
    const Choice choice = parse_choice(collectives, "collectives");
    setup.choice.collectives = named != kinds.collectives.end()
                                   ? make_collectives(named->second.section)
                                   : make_collectives(choice.name, choice.options, "collectives");
  }
  make_cluster(setup.choice);  // throws InputError if it is invalid
  return setup;
}

void warn(const std::string& text) {
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) != 0) throw py::error_already_set();
}

}  // namespace

std::size_t ClusterSetup::num_devices() const {
  std::size_t count = 0;
  for (const DeviceChoice& d : choice.devices) count += d.count;
  return count;
}

Experiment ClusterSetup::experiment(const Graph& graph,
                                    const std::vector<std::string>& transforms) {
  if (last == graph.trace && transforms.empty()) return {costed, engine};
  ClusterChoice on = choice;
  take_own_types(on, graph.trace->graph);
  std::vector<TransformChoice> chosen;
  for (const std::string& text : transforms)
    chosen.push_back(make_transform_choice(parse_choice(text, "transforms")));
  require_times(*graph.trace, on, graph.trace->name);
  auto prepared = std::make_shared<const PreparedGraph>(
      prepare({graph.trace, &graph.trace->graph}, on, chosen));
  // The command line prints the same.
  if (const std::string& kind = prepared->kind_without_times; !kind.empty())
    warn(fmt::format(
        "times are of the graph, one per op for all device types; none is measured on '{}'", kind));
  if (!prepared->assumed_kind.empty())
    warn(fmt::format(
        "no op has a measured time: times are those of {}; kind='NAME' sets another device type",
        prepared->assumed_kind));
  auto result = std::make_shared<const CostedGraph>(std::move(prepared), on);
  if (transforms.empty()) {
    last = graph.trace;
    costed = result;
  }
  return {result, engine};
}

void define_cluster(py::module_& m) {
  py::class_<ClusterSetup, std::shared_ptr<ClusterSetup>>(
      m, "Cluster", "Devices, the link between any two, and the engine's options.")
      .def(py::init(&cluster_setup), py::kw_only(), py::arg("devices"),
           py::arg("memory") = py::none(), py::arg("bandwidth") = py::none(),
           py::arg("latency") = py::none(), py::arg("kind") = "", py::arg("link") = "",
           py::arg("memory_fraction") = 1.0, py::arg("transfers") = "", py::arg("semantics") = "",
           py::arg("queue") = "", py::arg("collectives") = "", py::arg("cache_tensors") = true,
           py::arg("overlap") = true, py::arg("cpu_memory") = py::none(),
           py::arg("host_link") = "pcie4_h2d", py::arg("disk") = "",
           "Cluster(devices=4, memory='8 GiB', bandwidth='5.7 GB/s', latency='134 us'), or\n"
           "Cluster(devices='2xrtx_4090,1xrtx_3060', memory='24G,24G,12G'): values and\n"
           "defaults are those of the command line ('baechi place --help', CLUSTER).\n\n"
           ">>> baechi.Cluster(devices=4, memory='8 GiB', latency='134 us').num_devices\n4")
      .def_property_readonly("num_devices", &ClusterSetup::num_devices)
      .def("__repr__", [](const ClusterSetup& c) {
        std::string devices;
        for (const DeviceChoice& d : c.choice.devices)
          devices += fmt::format("{}{} devices of {}", devices.empty() ? "" : ", ", d.count,
                                 to_text(d.memory));
        return fmt::format("<baechi.Cluster: {}, {} and {}>", devices,
                           to_text(c.choice.link.bandwidth), to_text(c.choice.link.latency));
      });
}

}  // namespace baechi::python
