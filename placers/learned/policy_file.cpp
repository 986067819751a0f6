#include "placers/learned/policy_file.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <iterator>

#include "sim/error.h"
#include "traces/format/compressed_file.h"
#include "traces/format/json.h"
#include "traces/format/json_string.h"

namespace baechi::learned {
namespace {

constexpr std::string_view policy_format = "baechi-policy", training_format = "baechi-training";
constexpr int scale = 16384;  // of the weights in a policy's file, which are whole
constexpr std::size_t most_policy_bytes = 16U << 20U;

constexpr std::string_view policy_keys[] = {
    "format", "version", "unit_features", "device_features", "hidden",      "rounds",
    "scale",  "weights", "scenario",      "digest",          "evaluations", "seed"};
constexpr std::string_view training_keys[] = {
    "format",  "version", "digest",  "evaluations", "seed",   "imitate", "done",
    "updates", "decays",  "weights", "first",       "second", "samples", "curve"};

/// A finite number, which may be below zero; a mistake, and 0, if it is none.
double any_number(Json value) {
  const auto number = parse_number<double>(value.token());
  if (number && std::isfinite(*number)) return *number;
  value.is_not("a finite number");
  return 0.0;
}

std::vector<double> numbers(Json list) {
  std::vector<double> all;
  list.list([&](Json value) { all.push_back(any_number(value)); });
  return all;
}

void header(std::string_view key, Json& value, std::string_view format) {
  if (key == "format" && value.string() != format)
    value.mistake(fmt::format("this is no {} file", format));
  if (key == "version" && value.whole() != 1)
    value.mistake("another version of this format: this program reads version 1");
}

template <std::size_t n>
void features(JsonFile& file, Json list, const std::array<std::string_view, n>& names) {
  std::size_t at = 0;
  const std::size_t where = list.offset();
  bool same = true;
  list.list([&](Json name) {
    const std::string_view text = name.string();
    same = same && at < n && text == names[at];
    ++at;
  });
  if (!same || at != n)
    file.mistake(where, fmt::format("features: this program's policies read others: {}",
                                    fmt::join(names, ", ")));
}

template <std::size_t n>
std::string quoted_names(const std::array<std::string_view, n>& names) {
  std::string text;
  for (const std::string_view name : names)
    text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", name);
  return text;
}

/// Some to a line.
std::string number_list(const auto& values) {
  constexpr std::size_t per_line = 16;
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += i % per_line == 0 ? ",\n " : ",";
    text += fmt::format("{}", values[i]);
  }
  return text;
}

}  // namespace

std::string policy_text(const Policy& policy) {
  const Shape shape = list_network().shape();
  std::vector<std::int64_t> weights;
  for (const double w : policy.weights) weights.push_back(std::llround(w * scale));
  return fmt::format(
      "{{\"format\": \"{}\", \"version\": 1,\n \"scenario\": {}, \"digest\": {},\n"
      " \"evaluations\": {}, \"seed\": {},\n \"unit_features\": [{}],\n"
      " \"device_features\": [{}],\n \"hidden\": {}, \"rounds\": {}, \"scale\": {},\n \"weights\": "
      "[\n {}]}}\n",
      policy_format, json_string(policy.scenario), json_string(policy.digest), policy.evaluations,
      policy.seed, quoted_names(unit_feature_names), quoted_names(device_feature_names),
      shape.hidden, shape.rounds, scale, number_list(weights));
}

Policy parse_policy(const std::string& text, const std::string& path) {
  const Network network = list_network();
  JsonFile file(path, text);
  Policy policy;
  file.root().object({"a policy", policy_keys, 8}, [&](std::string_view key, Json value) {
    if (key == "format" || key == "version") header(key, value, policy_format);
    if (key == "unit_features") features(file, value, unit_feature_names);
    if (key == "device_features") features(file, value, device_feature_names);
    if (key == "hidden" && static_cast<std::size_t>(value.whole()) != network.shape().hidden)
      value.mistake(fmt::format("this program's policies have {}", network.shape().hidden));
    if (key == "rounds" && static_cast<std::size_t>(value.whole()) != network.shape().rounds)
      value.mistake(fmt::format("this program's policies have {}", network.shape().rounds));
    if (key == "scale" && value.whole() != scale)
      value.mistake(fmt::format("this program's policies have {}", scale));
    if (key == "scenario") policy.scenario = value.string();
    if (key == "digest") policy.digest = value.string();
    if (key == "evaluations") policy.evaluations = static_cast<std::size_t>(value.whole());
    if (key == "seed") policy.seed = static_cast<std::uint64_t>(value.whole());
    if (key != "weights") return;
    const std::size_t where = value.offset();
    policy.weights = numbers(value);
    for (double& w : policy.weights) {
      if (w != std::floor(w) || std::abs(w) > 1e12) {
        file.mistake(where, "weights: whole numbers");
        break;
      }
      w /= scale;
    }
    if (policy.weights.size() != network.num_weights())
      file.mistake(where, fmt::format("weights: {} numbers; the network has {}",
                                      policy.weights.size(), network.num_weights()));
  });
  file.finish();
  return policy;
}

Policy read_policy(const std::string& path) {
  return parse_policy(read_file(path, most_policy_bytes), path);
}

std::string stopped_text(const StoppedTraining& stopped) {
  const auto& [digest, settings, state, samples, curve] = stopped;
  std::string rows, seen;
  for (const Samples& one : samples)
    seen += fmt::format("{}[{},{},{}]", seen.empty() ? "" : ",\n ", one.count, one.sum, one.best);
  for (const CurveRow& row : curve)
    rows += fmt::format("{}[{},{},{},{}]", rows.empty() ? "" : ",\n ", row.evaluations, row.seconds,
                        row.mean, row.best);
  return fmt::format(
      "{{\"format\": \"{}\", \"version\": 1, \"digest\": {},\n"
      " \"evaluations\": {}, \"seed\": {}, \"imitate\": {}, \"done\": {}, \"updates\": {},\n"
      " \"decays\": [{},{}],\n \"weights\": [\n {}],\n \"first\": [\n {}],\n \"second\": [\n {}],\n"
      " \"samples\": [{}],\n \"curve\": [{}]}}\n",
      training_format, json_string(digest), settings.evaluations, settings.seed, settings.imitate,
      state.evaluations, state.updates, state.adam.decay_first, state.adam.decay_second,
      number_list(state.adam.weights), number_list(state.adam.first),
      number_list(state.adam.second), seen, rows);
}

namespace {

/// Reads the file of stopped training.
class StoppedReader {
 public:
  StoppedReader(const std::string& text, const std::string& path) : file_(path, text) {}

  StoppedTraining read() {
    file_.root().object({"stopped training", training_keys, std::size(training_keys)},
                        [&](std::string_view key, Json value) {
                          header(key, value, training_format);
                          counts(key, value);
                          tables(key, value);
                        });
    file_.finish();
    return std::move(stopped_);
  }

 private:
  void counts(std::string_view key, Json& value) {
    const auto whole = [&] { return static_cast<std::size_t>(value.whole()); };
    if (key == "digest") stopped_.digest = value.string();
    if (key == "evaluations") stopped_.settings.evaluations = whole();
    if (key == "seed") stopped_.settings.seed = whole();
    if (key == "imitate") stopped_.settings.imitate = value.boolean();
    if (key == "done") stopped_.state.evaluations = whole();
    if (key == "updates") stopped_.state.updates = whole();
  }
  void tables(std::string_view key, Json& value) {
    Adam& adam = stopped_.state.adam;
    if (key == "decays") {
      const std::vector<double> decays = exactly(value, 2);
      adam.decay_first = decays[0];
      adam.decay_second = decays[1];
    }
    if (key == "weights") adam.weights = exactly(value, num_weights_);
    if (key == "first") adam.first = exactly(value, num_weights_);
    if (key == "second") adam.second = exactly(value, num_weights_);
    if (key == "samples") {
      value.list([&](Json row) {
        const std::vector<double> r = row_of(row, 3);
        stopped_.samples.push_back(
            {.count = static_cast<std::size_t>(r[0]), .sum = r[1], .best = r[2]});
      });
    }
    if (key == "curve") {
      value.list([&](Json row) {
        const std::vector<double> r = row_of(row, 4);
        stopped_.curve.push_back({static_cast<std::size_t>(r[0]), r[1], r[2], r[3]});
      });
    }
  }

  std::vector<double> exactly(Json& value, std::size_t count) {
    const std::size_t where = value.offset();
    std::vector<double> all = numbers(value);
    if (all.size() != count) {
      file_.mistake(where, fmt::format("{} numbers instead of {}", all.size(), count));
      all.resize(count, 0.0);
    }
    return all;
  }
  /// Begins with a count.
  std::vector<double> row_of(Json& value, std::size_t count) {
    const std::size_t where = value.offset();
    std::vector<double> row = exactly(value, count);
    if (row[0] >= 0.0 && row[0] < 1e15) return row;
    file_.mistake(where, "a row begins with a number of evaluations");
    row[0] = 0.0;
    return row;
  }

  JsonFile file_;
  StoppedTraining stopped_;
  const std::size_t num_weights_ = list_network().num_weights();
};

}  // namespace

StoppedTraining parse_stopped(const std::string& text, const std::string& path) {
  return StoppedReader(text, path).read();
}

}  // namespace baechi::learned
