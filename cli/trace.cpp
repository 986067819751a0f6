#include <fmt/ranges.h>

#include <iterator>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "sim/graph/analysis.h"
#include "sim/graph/graph_io.h"
#include "sim/text.h"
#include "traces/format/trace_file.h"

namespace baechi {
namespace {

using Json = nlohmann::ordered_json;

std::string coverage_line(const Coverage& c) {
  return fmt::format("times {0}/{3}, bytes {1}/{3}, memory {2}/{3}", c.with_time, c.with_bytes,
                     c.with_memory, c.ops);
}

Json info_json(const Trace& trace, const std::string& assumed) {
  const OpGraph& graph = trace.graph;
  const TraceTotals sum = totals(graph);
  Json json = {{"name", trace.name},
               {"source", trace.source},
               {"format", trace.format},
               {"batch", trace.batch},
               {"ops", graph.num_ops()},
               {"edges", graph.num_edges()},
               {"tensors", graph.num_tensors()},
               {"groups", graph.num_groups()},
               {"critical_path_us", to_us(critical_path(graph))},
               {"compute_us", to_us(sum.compute)},
               {"output_bytes", sum.outputs.count},
               {"persistent_bytes", sum.persistent.count},
               {"largest_temporary_bytes", sum.temporary.count},
               {"device_kinds", graph.device_kinds()},
               {"assumed_kind", assumed},
               {"coverage",
                {{"ops", trace.coverage.ops},
                 {"with_time", trace.coverage.with_time},
                 {"with_bytes", trace.coverage.with_bytes},
                 {"with_memory", trace.coverage.with_memory},
                 {"untimed", trace.untimed.ops}}},
               {"coverage_line", coverage_line(trace.coverage)},
               {"notes", trace.notes}};
  if (sum.cache > Bytes{}) json["cache_bytes"] = sum.cache.count;
  return json;
}

std::string info_table(const Trace& trace, const std::string& assumed) {
  const OpGraph& graph = trace.graph;
  const TraceTotals sum = totals(graph);
  std::string text;
  const auto line = [&text](std::string_view label, const std::string& value) {
    if (!value.empty()) text += fmt::format("{:<15} {}\n", label, plain_text(value));
  };
  if (!assumed.empty())
    line("assumed", fmt::format("{}: no op has a measured time; --kind NAME sets another device "
                                "type",
                                assumed));
  line("name", trace.name);
  line("source", trace.source);
  line("format", trace.format);
  if (trace.batch > 0) line("batch", fmt::format("{}", trace.batch));
  line("ops", fmt::format("{}", graph.num_ops()));
  line("edges", fmt::format("{}", graph.num_edges()));
  line("tensors", fmt::format("{}", graph.num_tensors()));
  line("groups", fmt::format("{}", graph.num_groups()));
  line("device kinds", fmt::format("{}", fmt::join(graph.device_kinds(), ", ")));
  const Duration path = critical_path(graph);
  line("total compute", to_text(sum.compute));
  line("critical path",
       to_text(path) + (path > Duration::zero()
                            ? fmt::format(" (parallelism at most {:.2f})",
                                          static_cast<double>(sum.compute.count()) /
                                              static_cast<double>(path.count()))
                            : ""));
  line("persistent", to_text(sum.persistent));
  if (sum.cache > Bytes{}) line("of it cache", to_text(sum.cache));
  line("outputs", to_text(sum.outputs));
  line("workspace", to_text(sum.temporary) + " at most");
  line("known", coverage_line(trace.coverage));
  if (trace.untimed.ops > 0)
    line("untimed", fmt::format("{} ops have neither a time nor known work; the first is {}",
                                trace.untimed.ops, trace.untimed.first));
  constexpr std::string_view warning = "warning: ";
  for (const std::string& note : trace.notes)
    if (note.starts_with(warning))
      line("warning", note.substr(warning.size()));
    else
      line("note", note);
  return text;
}

struct InfoFlags {
  TraceArgument trace;
  std::string kind, format;
};

int info(const InfoFlags& flags) {
  const std::string& kind = flags.kind;
  Trace trace = read_trace(flags.trace);
  std::string assumed;
  if (kind.empty()) {
    assumed = give_times(trace);
  } else {
    trace.graph = on_kind(trace.graph, kind);
    trace.coverage = coverage(trace.graph);
    trace.notes.push_back("times are those on " + kind);
  }
  if (flags.format == "json")
    print_json(info_json(trace, assumed));
  else
    print_out(info_table(trace, assumed));
  return 0;
}

struct CheckFlags {
  std::vector<std::string> paths;
  std::string importer;
};

int check_traces(const CheckFlags& flags) {
  std::string mistakes;
  for (const std::string& path : flags.paths) {
    try {
      const Trace trace = read_trace({.path = path, .importer = flags.importer});
      std::string text = fmt::format("{}: ok, {} ops, {} edges, {}\n", path, trace.graph.num_ops(),
                                     trace.graph.num_edges(), coverage_line(trace.coverage));
      for (const std::string& warning : warnings(trace))
        text += fmt::format("{}: warning: {}\n", path, warning);
      print_out(text);
    } catch (const InputError& mistake) {
      mistakes += fmt::format("{}{}", mistakes.empty() ? "" : "\n", mistake.what());
    }
  }
  if (!mistakes.empty()) throw InputError(mistakes);
  return 0;
}

/// Names what GraphML cannot hold, one line each. Throws InputError if the step would be another.
void name_losses(const Trace& trace, const std::string& out) {
  GraphmlLosses losses = graphml_losses(trace.graph);
  if (!losses.of_step.empty())
    throw InputError(
        fmt::format("{}: GraphML cannot hold {}: the step would be another; a trace "
                    "(.json, .json.gz, .json.zst) holds all",
                    out, fmt::join(losses.of_step, "; ")));
  if (trace.batch > 0) losses.others.push_back(fmt::format("batch {}", trace.batch));
  for (const std::string& loss : losses.others)
    fmt::print(stderr, "{}: GraphML does not hold {}\n", out, loss);
}

struct ConvertFlags {
  TraceArgument in;
  std::string out;
};

int convert(const ConvertFlags& flags) {
  const std::string& out = flags.out;
  const auto is = [&](const char* ending) { return out.ends_with(ending); };
  if (!is(".json") && !is(".json.gz") && !is(".json.zst") && !is(".dot") && !is(".graphml"))
    throw InputError(fmt::format(
        "'{}' has no known extension (.json, .json.gz, .json.zst: a trace; .dot; .graphml)", out));
  const Trace trace = read_trace(flags.in);
  trace.untimed.refuse(flags.in.path, trace.graph.num_ops());
  if (is(".graphml")) name_losses(trace, out);
  const Stage stage("writing " + out);
  if (is(".dot"))
    write_file(out, to_dot(trace.graph));
  else if (is(".graphml"))
    write_file(out, to_graphml(trace.graph));
  else
    write_trace(trace, out);
  return 0;
}

struct GenerateFlags {
  std::string name, out;
  std::vector<std::string> options;
};

int generate(const GenerateFlags& flags) {
  std::string text = flags.name;
  std::vector<std::string> assignments = flags.options;
  std::optional<Stage> stage("generating");
  if (const auto published = published_model(text)) text = published->generator();
  const std::string name = text.substr(0, text.find(':'));
  if (name != text)
    std::ranges::move(split_at_commas(text.substr(name.size() + 1)),
                      std::back_inserter(assignments));
  const Trace trace =
      load_generated({.name = name, .options = parse_options(name, assignments, "")});
  stage.reset();
  if (flags.out.empty()) {
    print_out(trace_json(trace));
  } else {
    stage.emplace("writing " + flags.out);
    write_trace(trace, flags.out);
  }
  return 0;
}

void add_info(CLI::App& trace, Verb& chosen) {
  const auto [verb, arguments] = add_verb(
      trace, chosen, "info", "Summarise a graph: ops, sizes, times, and their coverage", info);
  add_trace_argument(*verb, arguments->trace);
  add_value(*verb, "--kind", arguments->kind, "NAME",
            "Device type of the times: one with times in TRACE or, if TRACE has the ops' "
            "work, one of 'baechi list devices' [the first one in TRACE]");
  add_format(*verb, arguments->format, {"table", "json"});
  verb->footer(
      "Examples:\n"
      "  baechi trace info graph.json.zst\n"
      "  baechi trace info graph.json.zst --kind a100");
}

void add_check(CLI::App& trace, Verb& chosen) {
  const auto [verb, arguments] = add_verb(
      trace, chosen, "check",
      "List all mistakes in graph files by line and column; warn of unknown times and sizes",
      check_traces);
  add_argument(*verb, "TRACE", arguments->paths,
               "Graph files, in any format that an importer reads");
  add_value(*verb, "--importer", arguments->importer, "NAME[:k=v,...]", "Importer that reads them");
  verb->footer("Exit code 2 if there is a mistake.\nExample:\n  baechi trace check *.json");
}

void add_convert(CLI::App& trace, Verb& chosen) {
  const auto [verb, arguments] = add_verb(
      trace, chosen, "convert", "Convert a graph to a trace file, DOT or GraphML", convert);
  add_trace_argument(*verb, arguments->in);
  add_argument(*verb, "-o,--output,OUT", arguments->out,
               "File to write; its extension is the format: .json, .json.gz, .json.zst (a trace), "
               ".dot, .graphml");
  verb->footer(
      "Examples:\n"
      "  baechi trace convert resnet50_graph.txt resnet50.json.zst\n"
      "  baechi trace convert model.et.json model.json.zst --importer "
      "pytorch:kineto=model.kineto.json\n"
      "  baechi trace convert graph.json graph.dot && dot -Tsvg graph.dot -o graph.svg");
}

void add_generate(CLI::App& trace, Verb& chosen) {
  const auto [verb, arguments] = add_verb(trace, chosen, "generate", "Generate a graph", generate);
  add_value(*verb, "NAME", arguments->name, "NAME[:k=v,...]",
            "Generator or model ('baechi list generators', 'baechi list models'), config.json of "
            "Hugging Face, or a GGUF file")
      ->required();
  add_value(*verb, "OPTION", arguments->options, "", "Option of the generator: key=value");
  add_value(*verb, "-o,--output", arguments->out, "FILE",
            "Write the graph to FILE, compressed if it ends in .gz or .zst [standard output]");
  verb->footer("Example:\n  baechi trace generate layered ops=1000 seed=7 -o graph.json.zst");
}

}  // namespace

void add_trace(CLI::App& app, Verb& chosen) {
  CLI::App* trace =
      app.add_subcommand("trace", "Summarise, check, convert or generate graph files");
  trace->require_subcommand(1);
  add_info(*trace, chosen);
  add_check(*trace, chosen);
  add_convert(*trace, chosen);
  add_generate(*trace, chosen);
  for (CLI::App* verb : trace->get_subcommands({})) verb->group("Verbs");
}

}  // namespace baechi
