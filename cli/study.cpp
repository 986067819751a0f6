#include <filesystem>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "scenarios/studies/codesign/codesign.h"
#include "scenarios/studies/serving/packrat.h"
#include "sim/file_aside.h"

namespace baechi {
namespace {

using serving::Configuration;
using serving::ProfileConfigurations;
using serving::ServingPlan;
using Json = nlohmann::ordered_json;

struct ConfigureArguments {
  serving::ServingOrder order;
  std::string format;
};

/// "2 x (8 threads, 16) + 1 x (4 threads, 8)": count, threads and batch per instance.
Cell instances_cell(const std::optional<ServingPlan>& plan) {
  Cell cell(Json::array(), "");
  if (!plan) return {Json::array(), "-"};
  for (const ServingPlan::Instances& i : plan->instances) {
    cell.value.push_back({{"count", i.count}, {"threads", i.threads}, {"batch", i.batch}});
    cell.text += fmt::format("{}{} x ({} threads, {})", cell.text.empty() ? "" : " + ", i.count,
                             i.threads, i.batch);
  }
  return cell;
}

Cell ms_cell(const std::optional<Duration>& time, const char* without) {
  if (!time) return {Json(), without};
  return {to_us(*time) / 1e3, fmt::format("{:.1f} ms", to_us(*time) / 1e3)};
}

Report configuration_report(const ProfileConfigurations& profile) {
  Report report({{"batch", "batch"},
                 {"one_instance_ms", "one instance"},
                 {"latency_ms", "best"},
                 {"speed_up", "speed-up"},
                 {"instances", "instances"}});
  for (const Configuration& c : profile.batches) {
    const auto ratio = c.speed_up();
    report.add({c.batch, ms_cell(c.one_instance, "-"),
                ms_cell(c.best ? std::optional(c.best->latency) : std::nullopt, "infeasible"),
                ratio ? Cell(*ratio, fmt::format("{:.2f}", *ratio)) : Cell(Json(), "-"),
                instances_cell(c.best)});
  }
  return report;
}

int configure(const ConfigureArguments& arguments) {
  Json json = Json::array();
  std::string text;
  for (const ProfileConfigurations& profile : serving::configurations(arguments.order)) {
    const Report report = configuration_report(profile);
    const auto mean = profile.mean_speed_up();
    Json one = Json::object();
    std::string name;
    for (const auto& [column, word] : profile.profile.of) {
      one[column] = word;
      name += (name.empty() ? "" : ", ") + word;
    }
    one["threads"] = profile.threads;
    one["interference"] = profile.interference;
    one["mean_speed_up"] = mean ? Json(*mean) : Json();
    one["configurations"] = report.json();
    json.push_back(std::move(one));
    text += fmt::format("{}{}\n{}", text.empty() ? "" : "\n", bold(name), report.table());
    if (mean) text += fmt::format("mean speed-up {:.2f}\n", *mean);
  }
  if (arguments.format == "json")
    print_json({{"profiles", std::move(json)}});
  else
    print_out(text);
  return 0;
}

struct CodesignArguments {
  std::string scenario, out, format;
  std::vector<std::string> sets;
  std::size_t top = 10;
};

std::string design_counts_text(const CodesignResult& r) {
  const DesignAnswer& a = r.answer;
  return fmt::format(
      "visited {} of {} architectures within {:.4g} mm2 ({:.2f} %), of {} in total{}",
      a.visited.size(), a.designs, r.limit / 1e6, 100.0 * a.share(), r.combinations,
      a.proved ? "; none of the others is faster" : "");
}

Json design_plan_json(const DesignPlan& p) {
  const auto whole = [](std::int64_t n) { return n == 0 ? Json() : Json(n); };
  return {{"tensor", whole(p.tensor)},    {"data", whole(p.data)},    {"pipeline", p.stages},
          {"micro_batch", p.micro_batch}, {"recompute", p.recompute}, {"devices", p.devices}};
}

/// A row for each of `which`, indices of visited designs. `ranks`: all with a plan, best first.
Report designs_report(const CodesignResult& r, std::span<const std::size_t> which,
                      std::span<const std::size_t> ranks) {
  Report report({{"", ""},
                 {"tensor_cores", "tensor cores"},
                 {"", "array"},
                 {"vector_cores", "vector cores"},
                 {"width", {}},
                 {"depth", {}},
                 {"buffer_bytes", "buffer"},
                 {"area_um2", "area, mm2"},
                 {"status", {}},
                 {"step_time_us", "step"},
                 {"samples_per_s", "samples/s"},
                 {"plan", {}},
                 {"", "tensor"},
                 {"", "data"},
                 {"", "pipeline"},
                 {"", "micro-batch"},
                 {"", "recompute"},
                 {"", "devices"},
                 {"on_front", "front"}});
  const auto degree = [](std::int64_t n) { return n == 0 ? "mixed" : fmt::to_string(n); };
  for (const std::size_t i : which) {
    const VisitedDesign& v = r.answer.visited[i];
    const Accelerator& d = v.sized.design;
    const DesignPlan p = v.plan.value_or(DesignPlan{});
    const double rate = v.plan ? r.throughput(v) : 0.0;
    const auto if_planned = [&](Json value, std::string text) {
      return v.plan ? Cell(std::move(value), std::move(text)) : Cell(Json(), "-");
    };
    const auto rank = std::ranges::find(ranks, i) - ranks.begin() + 1;
    report.add(
        {fmt::format("{}{}", rank, r.answer.reference == i ? " (reference)" : ""), d.tensor_cores,
         fmt::format("{}x{}", d.width, d.depth), d.vector_cores, d.width, d.depth, d.buffer,
         Cell(v.sized.area, fmt::format("{:.1f}", v.sized.area / 1e6)),
         std::string(to_text(v.plan ? Status::ok : Status::infeasible)),
         if_planned(p.seconds * 1e6, to_text(Duration{static_cast<std::int64_t>(p.seconds * 1e9)})),
         if_planned(rate, fmt::format("{:.4g}", rate)), if_planned(design_plan_json(p), ""),
         degree(p.tensor), degree(p.data), p.stages, p.micro_batch, p.recompute, p.devices,
         Cell(v.on_front, v.on_front ? "*" : "")});
  }
  return report;
}

std::string codesign_text(const CodesignResult& r, std::size_t top) {
  const std::vector<std::size_t> ranks = r.ranked();
  if (ranks.empty()) return bold("no plan fits\n") + design_counts_text(r) + "\n";
  std::vector<std::size_t> shown;
  for (std::size_t k = 0; k < ranks.size(); ++k)
    if (k < top || r.answer.reference == ranks[k]) shown.push_back(ranks[k]);
  std::string text = designs_report(r, shown, ranks).table() + "\n" + design_counts_text(r) + "\n";
  if (const auto gain = r.gain())
    text += fmt::format("the best is {:.3f} x as fast as the reference\n", *gain);
  return text;
}

Json codesign_json(const CodesignResult& r, std::size_t top) {
  const std::vector<std::size_t> ranks = r.ranked();
  std::vector<std::size_t> front;
  for (std::size_t i = 0; i < r.answer.visited.size(); ++i)
    if (r.answer.visited[i].on_front) front.push_back(i);
  const auto json = [&](std::span<const std::size_t> which) {
    return designs_report(r, which, ranks).json();
  };
  const auto gain = r.gain();
  return {{"status", to_text(ranks.empty() ? Status::infeasible : Status::ok)},
          {"designs", json(std::span(ranks).first(std::min(top, ranks.size())))},
          {"front", json(front)},
          {"reference", r.answer.reference ? json(std::array{*r.answer.reference})[0] : Json()},
          {"gain", gain ? Json(*gain) : Json()},
          {"visited", r.answer.visited.size()},
          {"architectures", r.answer.designs},
          {"combinations", r.combinations},
          {"limit_um2", r.limit},
          {"proved", r.answer.proved}};
}

/// The visited designs in the order of visits.
std::string codesign_csv(const CodesignResult& r) {
  std::string text =
      "tensor_cores,vector_cores,width,depth,buffer_bytes,area_um2,step_time_us,samples_per_s,"
      "tensor,data,pipeline,micro_batch,recompute,devices,on_front\n";
  for (const VisitedDesign& v : r.answer.visited) {
    const Accelerator& d = v.sized.design;
    text += fmt::format("{},{},{},{},{},{},", d.tensor_cores, d.vector_cores, d.width, d.depth,
                        d.buffer.count, v.sized.area);
    if (v.plan) {
      const DesignPlan& p = *v.plan;
      text += fmt::format("{},{},{},{},{},{},{},{},", p.seconds * 1e6, r.throughput(v), p.tensor,
                          p.data, p.stages, p.micro_batch, p.recompute, p.devices);
    } else {
      text += ",,,,,,,,";
    }
    text += v.on_front ? "true\n" : "false\n";
  }
  return text;
}

void write_folder(const std::string& folder, const CodesignResult& r) {
  std::filesystem::create_directories(folder);
  write_aside(folder + "/designs.csv", codesign_csv(r));
  print_pictures(folder, "designs.csv");
}

int codesign(const CodesignArguments& a) {
  const ScenarioFile file = load_scenario(a.scenario, a.sets);
  const CodesignResult result = codesign_of(file, stages("architectures"));
  if (!a.out.empty()) write_folder(a.out, result);
  if (a.format == "json")
    print_json(codesign_json(result, a.top));
  else if (a.format == "csv")
    print_out(codesign_csv(result));
  else
    print_out(codesign_text(result, a.top));
  return 0;
}

}  // namespace

void add_configure(CLI::App& app, Verb& chosen) {
  const auto [verb, arguments] = add_verb(
      app, chosen, "configure",
      "Choose the instances, threads and batches that serve a batch with the least latency",
      configure);
  add_argument(
      *verb, "FILE", arguments->order.file,
      "CSV of measured latencies: threads, batch, mean_ms; other columns identify the profile");
  add_value(*verb, "--threads", arguments->order.threads, "N", "Threads of the machine")
      ->required();
  add_value(*verb, "--batch", arguments->order.batch, "B",
            "Batch sizes: 32, or 8,24, or those of the profiles in 8..1024")
      ->required();
  add_value(*verb, "--interference", arguments->order.interference, "F",
            "Slowdown of an instance that does not run alone [1]");
  add_repeated(*verb, "--where", arguments->order.where, "COLUMN=WORD",
               "Only profiles with WORD in COLUMN");
  add_format(*verb, arguments->format, {"text", "json"});
  verb->footer(
      "Examples:\n"
      "  baechi study configure --threads 16 --batch 8..1024 packrat_profiles.csv --where "
      "engine=graph\n"
      "  baechi study configure --threads 14 --batch 8,16 packrat_profiles.csv --interference "
      "1.15");
}

void add_codesign(CLI::App& app, Verb& chosen) {
  const auto [verb, a] =
      add_verb(app, chosen, "codesign",
               "Find the accelerator architecture that trains a model fastest", codesign);
  add_argument(*verb, "SCENARIO", a->scenario, "A scenario with a 'codesign' block");
  add_repeated(*verb, "--set", a->sets, "KEY=VALUE", "Override a dotted key of the scenario");
  add_number(*verb, "--top", a->top, 1, 100'000, "Architectures to show [10]");
  add_value(*verb, "-o", a->out, "FOLDER",
            "Write designs.csv, and throughput over area with its Pareto front as SVG and "
            "PDF by matplotlib, to this folder");
  add_format(*verb, a->format, {"text", "json", "csv"});
  verb->footer(
      "An architecture is a number of tensor cores and of vector cores, the width and depth of a\n"
      "tensor core's array, and a buffer. For each one within the area limit, op times come from\n"
      "a closed-form model, and the best plan of data, tensor and pipeline parallelism is found.\n"
      "Examples:\n"
      "  baechi study codesign scenarios/examples/codesign.yaml\n"
      "  baechi study codesign scenarios/examples/codesign.yaml --set codesign.order=bound -o "
      "designs");
}

void add_study(CLI::App& app, Verb& chosen) {
  CLI::App* study = app.add_subcommand(
      "study", "Search designs: instances and batches of servers, architectures of accelerators");
  study->require_subcommand(1);
  add_configure(*study, chosen);
  add_codesign(*study, chosen);
  for (CLI::App* verb : study->get_subcommands({})) verb->group("Verbs");
}

}  // namespace baechi
