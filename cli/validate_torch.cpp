#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "validate/torch_steps.h"

namespace baechi {

using namespace validate;

namespace {

using Json = nlohmann::ordered_json;

struct TorchFlags {
  std::string out, format;
};

std::string share(double value) {
  return fmt::format("{:.1f} %", 100.0 * value);
}

std::string errors_text(const TorchErrors& errors) {
  return fmt::format("median {}, worst {}", share(errors.median), share(errors.worst));
}

std::string torch_text(const TorchScore& score) {
  Columns columns(
      {"model", "way", "cut", "predicted ms", "measured ms", "error", "noise", "drift"});
  for (const TorchCase& c : score.cases)
    columns.add({c.model, c.way, c.cut, fmt::format("{:.2f}", c.predicted / 1e3),
                 fmt::format("{:.2f}", c.measured / 1e3),
                 fmt::format("{:+.1f} %{}", 100.0 * c.error(), c.counts ? "" : " (not counted)"),
                 share(c.noise), fmt::format("{:+.1f} %", 100.0 * c.drift)});
  const std::string memory = fmt::format(
      "peak memory of a process: {}, {} within {}, over {} peaks\n", errors_text(score.of_peaks),
      share(score.peaks_told_well), share(most_error_of_peak), score.peaks.size());
  if (score.counting == 0) return "no step was timed\n" + memory;
  std::string effects;
  for (const TorchEffect& effect : score.effects)
    effects += fmt::format("without '{}': {} instead of {}, over the {} cases that it moves\n",
                           effect.name, errors_text(effect.without), errors_text(effect.with),
                           effect.cases);
  return columns.text() +
         fmt::format(
             "\nerror: {}, over {} of {} cases (noise {}; recorded steps of one process "
             "alone {})\nat the machine's speed while it was measured (drift {}): {}\n"
             "without transfers: {}\na link "
             "alone, as Baechi has it: {}\nregret of the way and cut predicted best: mean {}, "
             "worst {}; order (Spearman): {:.3f}\n{}",
             errors_text(score.errors), score.counting, score.cases.size(), share(score.noise),
             share(score.recorded_noise), share(score.drift), errors_text(score.steady),
             errors_text(score.no_transfers), errors_text(score.baechi), share(score.regret),
             share(score.worst_regret), score.order, memory);
}

Json torch_json(const TorchErrors& errors) {
  return {{"median", errors.median}, {"worst", errors.worst}};
}

/// No number where no step was timed.
Json if_timed(const TorchScore& score, double value) {
  return score.counting == 0 ? Json() : Json(value);
}

Json torch_json(const TorchScore& score) {
  Json rows = Json::array();
  for (const TorchCase& c : score.cases)
    rows.push_back({{"model", c.model},
                    {"way", c.way},
                    {"cut", c.cut},
                    {"predicted_us", c.predicted},
                    {"measured_us", c.measured},
                    {"error", c.error()},
                    {"noise", c.noise},
                    {"drift", c.drift},
                    {"counts", c.counts}});
  Json peaks = torch_json(score.of_peaks);
  peaks["told_well"] = score.peaks_told_well;
  peaks["count"] = score.peaks.size();
  Json effects = Json::array();
  for (const TorchEffect& effect : score.effects)
    effects.push_back({{"effect", effect.name},
                       {"cases", effect.cases},
                       {"with", torch_json(effect.with)},
                       {"without", torch_json(effect.without)}});
  return {{"median_error", if_timed(score, score.errors.median)},
          {"worst_error", if_timed(score, score.errors.worst)},
          {"cases", score.counting},
          {"not_counted", score.cases.size() - score.counting},
          {"noise", score.noise},
          {"recorded_noise", score.recorded_noise},
          {"drift", score.drift},
          {"steady", torch_json(score.steady)},
          {"regret", if_timed(score, score.regret)},
          {"worst_regret", if_timed(score, score.worst_regret)},
          {"order", if_timed(score, score.order)},
          {"peaks", std::move(peaks)},
          {"no_transfers", torch_json(score.no_transfers)},
          {"baechi", torch_json(score.baechi)},
          {"effects", std::move(effects)},
          {"rows", std::move(rows)}};
}

int torch(const TorchFlags& flags) {
  const TorchScore score = score_torch(flags.out);
  if (flags.format == "json")
    print_json(torch_json(score));
  else
    print_out(torch_text(score));
  return 0;
}

}  // namespace

void add_validate_torch(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand(
      "torch", "Score predicted steps of PyTorch against measured ones, of './dev torch OUT'");
  const auto flags = std::make_shared<TorchFlags>();
  add_argument(*verb, "OUT", flags->out, "Folder with score.csv and peaks.csv");
  add_format(*verb, flags->format, {"text", "json"});
  verb->callback([flags, &chosen] { chosen = [flags] { return torch(*flags); }; });
}

}  // namespace baechi
