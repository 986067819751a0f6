#include "python/graph.h"

#include <pybind11/stl.h>

#include <filesystem>

#include "scenarios/read/choice_text.h"
#include "scenarios/read/paths.h"
#include "traces/format/trace_file.h"
#include "traces/importer.h"

namespace baechi::python {
namespace {

Graph read_graph(const std::string& path, const std::string& importer) {
  Choice choice;
  if (importer.empty())
    if (std::optional<Trace> generated = load_generator_words(path))
      return {std::make_shared<const Trace>(std::move(*generated))};
  if (!importer.empty()) choice = parse_choice(importer, "importer");
  Trace trace = read_trace(with_data_folder(path), choice.name, std::move(choice.options));
  if (trace.name.empty()) trace.name = std::filesystem::path(path).stem().string();
  return {std::make_shared<const Trace>(std::move(trace))};
}

/// The text of an option in a scenario.
std::string option_text(const py::handle& value) {
  if (py::isinstance<py::bool_>(value)) return value.cast<bool>() ? "true" : "false";
  return py::str(value).cast<std::string>();
}

Graph generate(const std::string& name, const py::kwargs& options) {
  Choice choice = parse_choice(name, "generate");
  for (const auto& [key, value] : options)
    choice.options.set(key.cast<std::string>(), {option_text(value), "", {}});
  return {std::make_shared<const Trace>(load_generated(choice))};
}

/// Strings of a list, one per op; empty for None.
std::vector<std::string> texts(const py::object& values, const char* what, std::size_t size) {
  std::vector<std::string> result;
  if (values.is_none()) return result;
  for (const py::handle value : values)
    result.push_back(value.is_none() ? std::string() : py::str(value).cast<std::string>());
  if (result.size() != size)
    throw InputError(fmt::format("{}: {} values for {} ops", what, result.size(), size));
  return result;
}

/// Group labels, one per op. The number 0 means no group, as in Graph.groups.
std::vector<std::string> group_labels(const py::object& values, std::size_t size) {
  std::vector<std::string> labels = texts(values, "groups", size);
  if (labels.empty()) return labels;
  std::size_t i = 0;
  for (const py::handle value : values) {
    if (!py::isinstance<py::str>(value) && value.equal(py::int_(0))) labels[i].clear();
    ++i;
  }
  return labels;
}

Bytes size_at(const std::vector<std::int64_t>& sizes, std::size_t i, const char* what) {
  if (sizes.empty()) return {};
  if (sizes[i] < 0) throw InputError(fmt::format("{}: {} of op {} is below 0", what, sizes[i], i));
  return {sizes[i]};
}

/// The arguments of graph_of_arrays(), of checked lengths.
struct GraphArrays {
  std::vector<double> compute_us;
  std::vector<std::int64_t> output, persistent, temporary, source, reader;
  std::vector<std::string> names, kinds, phases, modules, groups;
};

void add_ops(OpGraphBuilder& builder, const GraphArrays& arrays) {
  for (std::size_t i = 0; i < arrays.compute_us.size(); ++i) {
    const auto text = [i](const std::vector<std::string>& all) {
      return all.empty() ? std::string() : all[i];
    };
    const auto time = from_us(arrays.compute_us[i]);
    if (!time)
      throw InputError(
          fmt::format("compute_us: {} of op {} is not a time", arrays.compute_us[i], i));
    const std::string name = arrays.names.empty() ? fmt::format("op{}", i) : arrays.names[i];
    const std::string kind = text(arrays.kinds), module = text(arrays.modules);
    Phase phase = Phase::forward;
    if (const std::string word = text(arrays.phases); !word.empty()) {
      const auto known = parse<Phase>(word);
      if (!known)
        throw InputError(
            fmt::format("phases: '{}' of op {} is not forward, backward or update", word, i));
      phase = *known;
    }
    const OpId v = builder.add_op({.name = name,
                                   .kind = kind,
                                   .compute = *time,
                                   .persistent = size_at(arrays.persistent, i, "persistent_bytes"),
                                   .temporary = size_at(arrays.temporary, i, "temporary_bytes"),
                                   .phase = phase,
                                   .module = module});
    builder.add_tensor(v, size_at(arrays.output, i, "output_bytes"));
    if (const std::string group = text(arrays.groups); !group.empty()) builder.colocate(v, group);
  }
}

Graph graph_of_arrays(const py::object& compute_us, const py::object& edges,
                      const py::object& output_bytes, const py::object& persistent,
                      const py::object& temporary, const py::object& op_names,
                      const py::object& kinds, const py::object& phases, const py::object& modules,
                      const py::object& groups, const std::string& name) {
  GraphArrays arrays;
  arrays.compute_us = numbers(compute_us, "compute_us");
  const std::size_t n = arrays.compute_us.size();
  const auto sizes = [n](const py::object& values, const char* what) {
    return values.is_none() ? std::vector<std::int64_t>() : whole_numbers(values, what, n);
  };
  arrays.output = sizes(output_bytes, "output_bytes");
  arrays.persistent = sizes(persistent, "persistent_bytes");
  arrays.temporary = sizes(temporary, "temporary_bytes");
  arrays.names = texts(op_names, "names", n);
  arrays.kinds = texts(kinds, "kinds", n);
  arrays.phases = texts(phases, "phases", n);
  arrays.modules = texts(modules, "modules", n);
  arrays.groups = group_labels(groups, n);
  if (!edges.is_none()) {
    if (py::len(edges) != 2)
      throw InputError("edges: not two lists or arrays, of sources and of readers");
    arrays.source = whole_numbers(py::object(edges[py::int_(0)]), "edges[0]");
    arrays.reader = whole_numbers(py::object(edges[py::int_(1)]), "edges[1]");
    if (arrays.source.size() != arrays.reader.size())
      throw InputError(fmt::format("edges: {} sources, but {} readers", arrays.source.size(),
                                   arrays.reader.size()));
  }
  OpGraphBuilder builder;
  add_ops(builder, arrays);
  for (std::size_t e = 0; e < arrays.source.size(); ++e) {
    for (const std::int64_t v : {arrays.source[e], arrays.reader[e]})
      if (v < 0 || v >= static_cast<std::int64_t>(n))
        throw InputError(fmt::format("edges: {} of edge {} is not an op; there are {}", v, e, n));
    builder.add_edge(static_cast<TensorId>(arrays.source[e]), static_cast<OpId>(arrays.reader[e]));
  }
  Trace trace{.graph = build_graph(std::move(builder), "arrays"),
              .name = name,
              .source = "arrays of Python"};
  trace.coverage = coverage(trace.graph);
  return {std::make_shared<const Trace>(std::move(trace))};
}

template <class Member>
auto per_op(Member member) {
  return [member](const Graph& g) {
    py::list all(g.ops().num_ops());
    for (const OpId v : g.ops().ops()) all[index(v)] = py::str(std::string(member(g.ops(), v)));
    return all;
  };
}

py::object edge_member(const std::shared_ptr<const void>& owner, const OpGraph& graph,
                       const void* first) {
  return member_array<Edge>(owner, static_cast<const std::uint32_t*>(first), graph.num_edges());
}

}  // namespace

py::object compute_times(const std::shared_ptr<const void>& owner, const OpGraph& graph) {
  static_assert(sizeof(Duration) == sizeof(std::int64_t));
  const void* first = graph.num_ops() == 0 ? nullptr : &graph.op(OpId{0}).compute;
  return member_array<Op>(owner, static_cast<const std::int64_t*>(first), graph.num_ops());
}

py::object persistent_bytes(const std::shared_ptr<const void>& owner, const OpGraph& graph) {
  return member_array<Op>(
      owner, graph.num_ops() == 0 ? nullptr : &graph.op(OpId{0}).persistent.count, graph.num_ops());
}

py::object temporary_bytes(const std::shared_ptr<const void>& owner, const OpGraph& graph) {
  return member_array<Op>(
      owner, graph.num_ops() == 0 ? nullptr : &graph.op(OpId{0}).temporary.count, graph.num_ops());
}

py::object edge_sources(const std::shared_ptr<const void>& owner, const OpGraph& graph) {
  return edge_member(owner, graph, graph.num_edges() == 0 ? nullptr : &graph.edge(EdgeId{0}).src);
}

py::object edge_readers(const std::shared_ptr<const void>& owner, const OpGraph& graph) {
  return edge_member(owner, graph, graph.num_edges() == 0 ? nullptr : &graph.edge(EdgeId{0}).dst);
}

py::object edge_tensors(const std::shared_ptr<const void>& owner, const OpGraph& graph) {
  return edge_member(owner, graph,
                     graph.num_edges() == 0 ? nullptr : &graph.edge(EdgeId{0}).tensor);
}

py::object tensor_bytes(const std::shared_ptr<const void>& owner, const OpGraph& graph) {
  return member_array<Tensor>(
      owner, graph.num_tensors() == 0 ? nullptr : &graph.tensor(TensorId{0}).size.count,
      graph.num_tensors());
}

py::object groups(const std::shared_ptr<const void>& owner, const OpGraph& graph) {
  const void* first = graph.num_ops() == 0 ? nullptr : &graph.op(OpId{0}).group;
  return member_array<Op>(owner, static_cast<const std::uint32_t*>(first), graph.num_ops());
}

std::vector<std::string> names(const OpGraph& graph) {
  std::vector<std::string> all;
  all.reserve(graph.num_ops());
  for (const OpId v : graph.ops()) all.emplace_back(graph.name(v));
  return all;
}

void define_graph(py::module_& m) {
  const auto in_place =
      [](py::object (*array)(const std::shared_ptr<const void>&, const OpGraph&)) {
        return [array](const Graph& g) { return array(g.trace, g.ops()); };
      };
  py::class_<Graph>(m, "Graph", "An operator graph. Ops are numbered topologically; immutable.")
      .def(py::init(&graph_of_arrays), py::arg("compute_us"), py::arg("edges") = py::none(),
           py::kw_only(), py::arg("output_bytes") = py::none(),
           py::arg("persistent_bytes") = py::none(), py::arg("temporary_bytes") = py::none(),
           py::arg("names") = py::none(), py::arg("kinds") = py::none(),
           py::arg("phases") = py::none(), py::arg("modules") = py::none(),
           py::arg("groups") = py::none(), py::arg("name") = "",
           "A graph from arrays: op i takes compute_us[i] and writes output_bytes[i], which the\n"
           "readers of edges = (sources, readers) read. Ops with equal `groups` are colocated;\n"
           "None, '' and 0 mean no group. Ops are sorted topologically; `names` is their order.\n\n"
           ">>> baechi.Graph([10, 20], edges=([0], [1]), output_bytes=[100, 0])\n"
           "<baechi.Graph '': 2 ops, 1 edges>")
      .def_property_readonly("name", [](const Graph& g) { return g.trace->name; })
      .def_property_readonly("batch", [](const Graph& g) { return g.trace->batch; })
      .def_property_readonly("notes", [](const Graph& g) { return g.trace->notes; })
      .def_property_readonly("num_ops", [](const Graph& g) { return g.ops().num_ops(); })
      .def_property_readonly("num_edges", [](const Graph& g) { return g.ops().num_edges(); })
      .def_property_readonly("names", [](const Graph& g) { return names(g.ops()); })
      .def_property_readonly("kinds", per_op([](const OpGraph& g, OpId v) { return g.kind(v); }))
      .def_property_readonly("modules",
                             per_op([](const OpGraph& g, OpId v) { return g.module(v); }))
      .def_property_readonly(
          "phases", per_op([](const OpGraph& g, OpId v) { return to_text(g.op(v).phase); }))
      .def_property_readonly("compute_ns", in_place(compute_times))
      .def_property_readonly("persistent_bytes", in_place(persistent_bytes))
      .def_property_readonly("temporary_bytes", in_place(temporary_bytes))
      .def_property_readonly("groups", in_place(groups), "[num_ops] 0: no group")
      .def_property_readonly("edge_src", in_place(edge_sources))
      .def_property_readonly("edge_dst", in_place(edge_readers))
      .def_property_readonly("edge_tensor", in_place(edge_tensors))
      .def_property_readonly("tensor_bytes", in_place(tensor_bytes))
      .def(
          "save", [](const Graph& g, const std::string& path) { write_trace(*g.trace, path); },
          py::arg("path"), "Writes a trace file, compressed if it ends in .gz or .zst.")
      .def("__len__", [](const Graph& g) { return g.ops().num_ops(); })
      .def("__repr__", [](const Graph& g) {
        return fmt::format("<baechi.Graph '{}': {} ops, {} edges>", g.trace->name,
                           g.ops().num_ops(), g.ops().num_edges());
      });
  m.def("read", &read_graph, py::arg("path"), py::arg("importer") = "",
        py::call_guard<py::gil_scoped_release>(),
        "Reads a graph from a file of any imported format ('baechi list importers').\n\n"
        ">>> baechi.read('traces/data/transformer_small_train.trace.json.zst').batch\n4");
  m.def("generate", &generate, py::arg("name"),
        "Generates a graph ('baechi list generators NAME').\n\n"
        ">>> baechi.generate('resnet50', batch=32).batch\n32");
}

}  // namespace baechi::python
