#include "scenarios/results/overview.h"
#include "sim/text.h"
#include "validate/score.h"

namespace baechi {
extern const char* const page_css;
}  // namespace baechi

namespace baechi::validate {
namespace {

using Row = std::vector<std::string>;

struct Shown {
  std::string title, note;
  Row header;
  std::vector<Row> rows;
};

std::string percent_of(double x, int digits = 2) {
  return fmt::format("{:.{}f} %", 100.0 * x, digits);
}
std::string interval(const Estimate& e) {
  return fmt::format("{:.2f} to {:.2f} %", 100.0 * e.low, 100.0 * e.high);
}
std::string rank_text(const std::optional<double>& x) {
  return x ? fmt::format("{:.3f}", *x) : "-";
}

Row accuracy_cells(const Accuracy& a) {
  return {fmt::format("{}", a.plans), percent_of(a.median), interval(a.median_interval),
          percent_of(a.p95),          percent_of(a.bias),   interval(a.bias_interval)};
}

Shown layers_shown(const Validation& v) {
  Shown t{.title = "Step times",
          .note =
              "Error: predicted over measured median, less 1. Intervals: 95 %, by bootstrap over "
              "graphs, then placements.",
          .header = {"layer", "plans", "median |error|", "interval", "p95", "bias", "interval"},
          .rows = {}};
  for (const auto& [layer, a] : v.layers) {
    Row row = accuracy_cells(a);
    row.insert(row.begin(), std::string(meaning(layer)));
    t.rows.push_back(std::move(row));
  }
  return t;
}

Shown targets_shown(const Validation& v) {
  Shown t{.title = "Targets", .note = "", .header = {"", "target", "found", ""}, .rows = {}};
  for (const Target& target : targets(v))
    t.rows.push_back({target.what,
                      fmt::format("{} {}", target.at_least ? ">=" : "<=", target.wanted),
                      target.found ? fmt::format("{:.4g}", *target.found) : "-",
                      !target.found  ? "not measured"
                      : target.met() ? "met"
                                     : "missed"});
  return t;
}

Shown rankings_shown(const Validation& v) {
  Shown t{.title = "Ranking of placements",
          .note =
              "Spread: 10 % to 90 % quantile of measured steps, over their median. Kendall's tau "
              "is over pairs whose measured intervals do not overlap. Regret: how much slower the "
              "placement predicted best is than the best. Plans of one placement count once, by "
              "the plan of median measured step. Steps: distinct predicted steps.",
          .header = {"graph", "mode", "plans", "placements", "steps", "spread", "Spearman",
                     "Kendall", "pairs", "regret"},
          .rows = {}};
  for (const Ranking& r : v.rankings)
    t.rows.push_back({r.group, r.mode, fmt::format("{}", r.plans), fmt::format("{}", r.placements),
                      fmt::format("{}", r.steps), percent_of(r.spread, 1), rank_text(r.spearman),
                      rank_text(r.kendall), fmt::format("{}", r.pairs), percent_of(r.regret)});
  return t;
}

Shown ties_shown(const Validation& v) {
  Shown t{.title = "Ties and duplicates",
          .note = "Placements of a graph that are predicted to take equally long.",
          .header = {"graph", "mode", "what", "plans", "among them"},
          .rows = {}};
  constexpr std::size_t named = 3;
  for (const Ranking& r : v.rankings)
    for (const Tie& tie : r.ties)
      t.rows.push_back({r.group, r.mode, tie.same_plan ? "one placement" : "tie",
                        fmt::format("{}", tie.plans.size()),
                        fmt::format("{}", fmt::join(tie.plans | std::views::take(named), " "))});
  return t;
}

Shown rivals_shown(const Validation& v) {
  Shown t{.title = "Other models on the same data",
          .note =
              "Constants of others were tuned for other hardware: they say what calibrating is "
              "worth, not how good those projects are.",
          .header = {"model", "plans", "median |error|", "interval", "p95", "bias", "interval",
                     "what it is"},
          .rows = {}};
  for (const Rival& r : v.rivals) {
    Row row = accuracy_cells(r.accuracy);
    row.insert(row.begin(), r.name);
    row.push_back(r.what);
    t.rows.push_back(std::move(row));
  }
  return t;
}

Shown memory_shown(const Validation& v) {
  const MemoryScore& m = v.memory;
  return {.title = "Memory",
          .note = "Of each device, in the replays that were ok.",
          .header = {"", "compared", "wrong"},
          .rows = {{"peaks", fmt::format("{}", m.peaks),
                    fmt::format("worst by {}", to_text(m.worst_peak_error))}}};
}

std::vector<Shown> all_shown(const Validation& v) {
  std::vector<Shown> all{layers_shown(v), targets_shown(v), rankings_shown(v), memory_shown(v),
                         rivals_shown(v)};
  if (Shown ties = ties_shown(v); !ties.rows.empty()) all.push_back(std::move(ties));
  return all;
}

std::vector<std::string> remarks(const Validation& v) {
  std::vector<std::string> lines{
      fmt::format(
          "{}, driver {}, CUDA {}, {} partitions (disjoint: {}), timer tick {} ns, harness {}, {}",
          v.machine.gpu, v.machine.driver, v.machine.cuda, v.machine.partitions.size(),
          v.machine.disjoint, v.machine.timer_tick_ns, v.machine.harness, v.machine.date),
      fmt::format("{} replays of {} plans; {} failed; {} plans were not replayed", v.replays,
                  v.plans.size(), v.failed, v.not_replayed)};
  if (v.repeats > 0)
    lines.push_back(
        fmt::format("noise floor: the same plans once more differ by {} in the median, {} at the "
                    "95th percentile; no claim below that",
                    percent_of(v.noise_median, 3), percent_of(v.noise_p95, 3)));
  if (v.start_error)
    lines.push_back(fmt::format("starts of tasks are off by {} of the step in the median",
                                percent_of(*v.start_error, 3)));
  if (v.given_share)
    lines.push_back(fmt::format(
        "where lengths are given to both sides they are {} of the measured step in the median; of "
        "the rest the prediction is off by {}",
        percent_of(*v.given_share), v.error_of_rest ? percent_of(*v.error_of_rest, 1) : "nothing"));
  for (const Floor& f : v.floors)
    lines.push_back(
        fmt::format("noise floor between {}: {} plans of {} differ by {} in the median, {} at the "
                    "95th percentile",
                    f.between, f.plans, f.path, percent_of(f.median, 3), percent_of(f.p95, 3)));
  for (const auto& [rival, name] : {std::pair("no overheads", "a model without overheads"),
                                    std::pair("Baechi's procedure", "Baechi's procedure"),
                                    std::pair("datasheet roofline", "a datasheet's roofline")})
    if (const auto better = skill(v, rival))
      lines.push_back(
          fmt::format("skill: {:.2f} of the median error of {} is gone", *better, name));
  if (v.canary_spread)
    lines.push_back(
        fmt::format("the canary's times spread over {}: {}", percent_of(*v.canary_spread),
                    *v.canary_spread > 0.02 ? "clocks moved, times are in doubt" : "clocks held"));
  if (v.frozen > 0)
    lines.push_back(
        fmt::format("of {} predictions made before, {} equal those made here with the calibration",
                    v.frozen, v.frozen_equal));
  if (v.machine.gpu == "virtual")
    lines.emplace_back("this is a virtual clock, no GPU: it says nothing about hardware");
  return lines;
}

void append_html(std::string& out, const Shown& t) {
  out += fmt::format("<h2>{}</h2>\n<p>{}</p>\n<div class=\"scroll\"><table><thead><tr>",
                     escaped(t.title), escaped(t.note));
  for (const std::string& h : t.header) out += "<th>" + escaped(h) + "</th>";
  out += "</tr></thead><tbody>\n";
  for (const Row& row : t.rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      out += i == 0 ? "<th>" + escaped(row[i]) + "</th>"
                    : fmt::format("<td{}>{}</td>",
                                  row[i] == "met"      ? " class=\"best\""
                                  : row[i] == "missed" ? " class=\"oom\""
                                                       : "",
                                  escaped(row[i]));
    out += "</tr>\n";
  }
  out += "</tbody></table></div>\n";
}

std::string padded(const Shown& t) {
  std::string out = t.title + "\n";
  for (const std::string& line : table_lines({t.header, t.rows, ""}))
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  return out + "\n";
}

const Accuracy* layer_accuracy(const Validation& v, Layer layer) {
  const auto it = std::ranges::find(v.layers, layer, &std::pair<Layer, Accuracy>::first);
  return it == v.layers.end() ? nullptr : &it->second;
}

}  // namespace

std::vector<Target> targets(const Validation& v) {
  std::vector<Target> all;
  for (const Layer layer : baechi::all<Layer>()) {
    const Accuracy* a = layer_accuracy(v, layer);
    const auto found = [&](double Accuracy::* which) {
      return a == nullptr ? std::nullopt : std::optional(100.0 * (a->*which));
    };
    const LayerTarget target = target_of(layer);
    all.push_back({fmt::format("{}: median |error|, %", meaning(layer)), 100.0 * target.median,
                   found(&Accuracy::median)});
    all.push_back({fmt::format("{}: p95 |error|, %", meaning(layer)), 100.0 * target.p95,
                   found(&Accuracy::p95)});
  }
  all.push_back({"skill over a model without overheads", 0.5, skill(v, "no overheads"), true});
  Target rho{.what = "worst Spearman of a graph with spread >= 25 %, >= 32 placements",
             .wanted = 0.98,
             .at_least = true},
      tau{.what = "worst Kendall of such a graph", .wanted = 0.95, .at_least = true},
      regret{.what = "worst regret of such a graph, %", .wanted = 1.0};
  for (const Ranking& r : v.rankings) {
    if (r.placements < 32 || r.spread < 0.25) continue;
    if (r.spearman) rho.found = std::min(rho.found.value_or(1.0), *r.spearman);
    if (r.kendall) tau.found = std::min(tau.found.value_or(1.0), *r.kendall);
    regret.found = std::max(regret.found.value_or(0.0), 100.0 * r.regret);
  }
  all.insert(all.end(), {rho, tau, regret});
  all.push_back({"starts of tasks: median error over the step, %", 1.0,
                 v.start_error ? std::optional(100.0 * *v.start_error) : std::nullopt});
  return all;
}

std::string to_text(const Validation& v) {
  std::string out;
  for (const std::string& line : remarks(v)) out += line + "\n";
  out += "\n";
  for (const Shown& t : all_shown(v)) out += padded(t);
  return out;
}

std::string accuracy_csv(const Validation& v) {
  std::string out = "layer,median_percent,p95_percent\n";
  for (const auto& [layer, a] : v.layers)
    out += fmt::format("{},{:.3f},{:.3f}\n", to_text(layer), 100.0 * a.median, 100.0 * a.p95);
  return out;
}

std::string scores_csv(const Validation& v) {
  std::string out =
      "plan,group,mode,layer,predicted_ns,measured_ns,low_ns,high_ns,p5_ns,p95_ns,error,start_"
      "error,repeat,replays,failed,peak_error_bytes\n";
  const auto maybe = [](const std::optional<double>& x) {
    return x ? fmt::format("{}", *x) : std::string();
  };
  for (const PlanScore& p : v.plans) {
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", p.plan, p.group, p.mode,
                       to_text(p.layer), p.predicted, p.measured.value, p.measured.low,
                       p.measured.high, p.p5, p.p95,
                       p.measured.value > 0.0 ? fmt::format("{}", p.error()) : "",
                       maybe(p.start_error), maybe(p.repeat), p.replays, p.failed,
                       p.peak_error ? fmt::format("{}", p.peak_error->count) : "");
  }
  return out;
}

std::string to_html(const Validation& v) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<title>Validation</title>\n<style>{}</style></head>\n<body>\n"
      "<h1>Predicted against measured: {}</h1>\n<ul>\n",
      page_css, escaped(v.machine.gpu));
  for (const std::string& line : remarks(v)) out += "<li>" + escaped(line) + "</li>\n";
  out += "</ul>\n";
  for (const Shown& t : all_shown(v)) append_html(out, t);
  return out + "</body></html>\n";
}

}  // namespace baechi::validate
