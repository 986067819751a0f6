#include <pybind11/stl.h>

#include "python/graph.h"
#include "scenarios/read/choice_text.h"
#include "scenarios/read/device_table.h"
#include "scenarios/read/sections.h"
#include "scenarios/read/yaml.h"
#include "scenarios/run/build.h"
#include "sim/collectives/collective_models.h"
#include "sim/error.h"
#include "sim/options.h"
#include "sim/problem/engine_options.h"

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

template <NamedEnum E>
void read_word(Mistakes& mistakes, const char* what, const std::string& text, E& to) {
  if (text.empty()) return;
  if (const auto value = parse<E>(text)) {
    to = *value;
    return;
  }
  mistakes.add(fmt::format("{}: {}", what, not_one_of<E>(text)));
}

/// `devices`: a list of groups, as in a scenario's section `cluster`, or of kinds.
ClusterChoice listed_devices(const py::object& devices, const py::object& links,
                             const py::object& nodes) {
  py::dict section;
  py::list groups;
  for (const py::handle given : nodes.is_none() ? devices : py::list()) {
    py::dict group;
    if (py::isinstance<py::str>(given))
      group["kind"] = given;
    else
      group = py::dict(py::reinterpret_borrow<py::object>(given));
    if (group.contains("memory") && py::isinstance<py::int_>(group["memory"]))
      group["memory"] = py::str(group["memory"]) + py::str(" B");
    groups.append(group);
  }
  if (nodes.is_none()) {
    section["devices"] = groups;
    section["link"] = py::dict(py::arg("bandwidth") = "1 GB/s");  // the caller sets it
    if (!links.is_none()) section["links"] = links;
  } else {
    section["nodes"] = nodes;
  }
  const auto text =
      py::module_::import("json").attr("dumps")(section).cast<std::string>();  // JSON is YAML
  Mistakes mistakes;
  ClusterChoice choice = read_cluster(parse_yaml(text, "Cluster"), "", {}, mistakes);
  mistakes.throw_if_any();
  return choice;
}

ClusterSetup cluster_setup(const py::object& given, const py::object& memory,
                           const py::object& bandwidth, const py::object& latency,
                           const std::string& kind, const std::string& link, double memory_fraction,
                           const std::string& transfers, const std::string& semantics,
                           const std::string& queue, const std::string& collectives,
                           bool cache_tensors, bool overlap, const py::object& links,
                           const py::object& nodes) {
  Mistakes mistakes;
  ClusterSetup setup;
  const bool listed = !py::isinstance<py::int_>(given);  // or nodes
  const std::int64_t devices = listed ? 1 : given.cast<std::int64_t>();
  if (given.is_none() && nodes.is_none()) mistakes.add("devices are missing, such as devices=4");
  DeviceChoice& device = setup.choice.devices.emplace_back();
  if (devices < 1 || devices > static_cast<std::int64_t>(most_devices))
    mistakes.add(fmt::format("devices: {} is not a number from 1 to {}", devices, most_devices));
  device.count = static_cast<std::size_t>(std::max<std::int64_t>(devices, 1));
  device.kind = kind;
  const auto& kinds = built_in_devices();
  const auto known = kinds.devices.find(kind);
  if (known != kinds.devices.end()) {
    device.model = known->second;
    device.memory = known->second->memory;
  } else if (memory.is_none() && !listed) {
    mistakes.add(
        kind.empty()
            ? "memory is missing, such as memory='8 GiB'"
            : fmt::format("kind: '{}' is not in 'baechi list devices': give its memory, too",
                          kind));
  }
  read_quantity<Bytes>(
      mistakes, "memory", memory, parse_bytes,
      [](double n) { return Bytes{static_cast<std::int64_t>(n)}; },
      "a size such as '8 GiB', or a number of bytes", device.memory);
  setup.choice.link = default_link;
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
  setup.choice.memory_fraction = memory_fraction;
  read_word(mistakes, "transfers", transfers, setup.engine.transfers);
  read_word(mistakes, "semantics", semantics, setup.engine.semantics);
  read_word(mistakes, "queue", queue, setup.engine.queue);
  setup.engine.cache_tensors = cache_tensors;
  setup.engine.overlap = overlap;
  mistakes.throw_if_any();
  if (listed) {
    const ClusterChoice before = std::move(setup.choice);
    setup.choice = listed_devices(given, links, nodes);
    setup.choice.memory_fraction = before.memory_fraction;
    if (nodes.is_none()) setup.choice.link = before.link;
  }
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

Experiment ClusterSetup::experiment(const Graph& graph,
                                    const std::vector<std::string>& transforms) {
  if (last == graph.trace && transforms.empty()) return {costed, engine};
  std::vector<TransformChoice> chosen;
  for (const std::string& text : transforms)
    chosen.push_back(make_transform_choice(parse_choice(text, "transforms")));
  require_times(*graph.trace, choice, graph.trace->name);
  auto prepared = std::make_shared<const PreparedGraph>(
      prepare({graph.trace, &graph.trace->graph}, choice, chosen));
  // The command line prints the same.
  if (const std::string& kind = prepared->kind_without_times; !kind.empty())
    warn(fmt::format(
        "times are of the graph, one per op for all device types; none is measured on '{}'", kind));
  if (!prepared->assumed_kind.empty())
    warn(fmt::format(
        "no op has a measured time: times are those of {}; kind='NAME' sets another device type",
        prepared->assumed_kind));
  auto result = std::make_shared<const CostedGraph>(std::move(prepared), choice);
  if (transforms.empty()) {
    last = graph.trace;
    costed = result;
  }
  return {result, engine};
}

void define_cluster(py::module_& m) {
  py::class_<ClusterSetup, std::shared_ptr<ClusterSetup>>(
      m, "Cluster", "Devices, the link between any two, and the engine's options.")
      .def(
          py::init(&cluster_setup), py::kw_only(), py::arg("devices") = py::none(),
          py::arg("memory") = py::none(), py::arg("bandwidth") = py::none(),
          py::arg("latency") = py::none(), py::arg("kind") = "", py::arg("link") = "",
          py::arg("memory_fraction") = 1.0, py::arg("transfers") = "", py::arg("semantics") = "",
          py::arg("queue") = "", py::arg("collectives") = "", py::arg("cache_tensors") = true,
          py::arg("overlap") = true, py::arg("links") = py::none(), py::arg("nodes") = py::none(),
          "Cluster(devices=4, memory='8 GiB', bandwidth='5.7 GB/s', latency='134 us'): values and\n"
          "defaults are those of the command line ('baechi place --help', CLUSTER). Unequal "
          "devices\n"
          "are a list of kinds or groups, as in a scenario: devices=['rtx_4090', {'kind': 'v100',\n"
          "'count': 2, 'memory': '12 GiB'}]; links=[{'between': ...}] and nodes= are as there.")
      .def_property_readonly("num_devices", &ClusterSetup::num_devices)
      .def("__repr__", [](const ClusterSetup& c) {
        const DeviceChoice& d = c.choice.devices[0];
        return fmt::format("<baechi.Cluster: {} devices of {}, {} and {}>", d.count,
                           to_text(d.memory), to_text(c.choice.link.bandwidth),
                           to_text(c.choice.link.latency));
      });
}

}  // namespace baechi::python
