#include <cmath>

#include "scenarios/read/paths.h"
#include "scenarios/read/sections.h"
#include "scenarios/read/yaml.h"

namespace baechi {
namespace {

using Value = Options::Value;

std::string quoted(const std::string& text) {
  return one_line(Value{.text = text, .where = {}, .children = {}});
}

std::string yaml_of(const Estimate& e) {
  return fmt::format("[{}, {}, {}]", e.value, e.low, e.high);
}

std::string yaml_of(const std::vector<std::pair<double, double>>& table) {
  std::string out;
  for (const auto& [amount, ns] : table)
    out += fmt::format("{}[{}, {}]", out.empty() ? "" : ", ", amount, ns);
  return "[" + out + "]";
}

std::string yaml_of(const FittedTime& time) {
  std::string out =
      fmt::format("fixed_ns: {}, ns_per_unit: {}, least: {}, most: {}, worst_residual: {}",
                  yaml_of(time.fixed_ns), yaml_of(time.ns_per_unit), time.least, time.most,
                  time.worst_residual);
  if (!time.table.empty()) out += ", table: " + yaml_of(time.table);
  return out;
}

/// The values that only some harnesses measure.
std::string optional_keys(const Calibration::Mode& mode) {
  std::string out;
  if (mode.fan_in_ns != Estimate{}) out += ", fan_in_ns: " + yaml_of(mode.fan_in_ns);
  if (mode.after.empty()) return out;
  std::vector<std::string> entries;
  for (const auto& a : mode.after)
    entries.push_back(fmt::format("{{kind: {}, same_ns: {}}}", a.kind, yaml_of(a.same_ns)));
  return fmt::format("{}, after: [{}]", out, fmt::join(entries, ", "));
}

class Reader {
 public:
  explicit Reader(const Value& root) : root_(root) {}

  Calibration read() {
    Calibration c;
    Options o = options_of(root_, "calibration", "");
    const std::string schema = o.get("schema", "", "of the file");
    if (schema != Calibration::schema)
      o.mistake("schema", fmt::format("'{}', not '{}', which this program reads", schema,
                                      Calibration::schema));
    c.gpu = o.get("gpu", "", "");
    c.driver = o.get("driver", "", "");
    c.cuda = o.get("cuda", "", "");
    c.harness = o.get("harness", "", "");
    c.date = o.get("date", "", "");
    const std::int64_t sms = o.get("sms", std::int64_t{0}, "");
    if (sms > most_sms) o.mistake("sms", fmt::format("{} is more than {}", sms, most_sms));
    c.sms = static_cast<int>(sms);
    c.timer_tick_ns = o.get("timer_tick_ns", 0.0, "");
    o.get("granule_bytes", std::int64_t{0}, "");  // of earlier files
    const Value* partitions = o.raw("partitions", "");
    const Value* modes = o.raw("modes", "");
    const Value* transfers = o.raw("transfers", "");
    const Value* ops = o.raw("ops", "");
    const Value* interference = o.raw("interference", "");
    const Value* bandwidth = o.raw("bandwidth", "");
    mistakes_.attempt([&] { o.finish(); });
    each(partitions, [&](const Value& v) { c.partitions.push_back(partition(v)); });
    each(modes, [&](const Value& v) { c.modes.push_back(read_mode(v)); });
    each(transfers, [&](const Value& v) { c.transfers.push_back(read_transfer(v)); });
    each(ops, [&](const Value& v) { c.ops.push_back(read_op(v)); });
    each(interference, [&](const Value& v) { c.interference.push_back(read_interference(v)); });
    if (bandwidth != nullptr) mistakes_.attempt([&] { c.bandwidth = read_bandwidth(*bandwidth); });
    mistakes_.sort_by_place();
    mistakes_.throw_if_any();
    return c;
  }

 private:
  static constexpr int most_sms = 1 << 20;  // the same limit as in machine.txt

  void each(const Value* list, const auto& read) {
    if (list == nullptr || (list->children.empty() && (list->text.empty() || list->text == "[]")))
      return;
    if (!is_list(*list)) return mistakes_.add(at(list->where) + "not a list");
    for (const auto& entry : list->children) mistakes_.attempt([&] { read(entry.second); });
  }

  static std::vector<double> numbers(const Value& list, std::size_t count) {
    std::vector<double> all;
    for (const auto& [key, v] : list.children) {
      const auto n = parse_number<double>(v.text);
      if (!n || !std::isfinite(*n) || std::abs(*n) > 1e18)
        throw InputError(fmt::format("{}'{}' is not a number", at(v.where), v.text));
      all.push_back(*n);
    }
    if (all.size() != count)
      throw InputError(fmt::format("{}expected a list of {} numbers", at(list.where), count));
    return all;
  }

  static Calibration::Partition partition(const Value& v) {
    const std::vector<double> n = numbers(v, 2);
    for (const double sms : n) {
      if (sms < 0.0 || sms > most_sms || sms != std::floor(sms))
        throw InputError(fmt::format("{}multiprocessors are a whole number from 0 to {}, not {}",
                                     at(v.where), most_sms, sms));
    }
    return {static_cast<int>(n[0]), static_cast<int>(n[1])};
  }

  /// The estimate at `key`; zeros if it is optional and missing.
  static Estimate estimate(Options& o, const char* key) {
    const Value* v = o.raw(key, "");
    if (v == nullptr) return {};
    const std::vector<double> n = numbers(*v, 3);
    return {n[0], n[1], n[2]};
  }

  static FittedTime fitted(Options& o) {
    FittedTime time;
    time.fixed_ns = estimate(o, "fixed_ns");
    time.ns_per_unit = estimate(o, "ns_per_unit");
    time.least = o.get("least", 0.0, "");
    time.most = o.get("most", 0.0, "");
    time.worst_residual = o.get("worst_residual", 0.0, "");
    if (const Value* table = o.raw("table", "")) {
      for (const auto& [key, v] : table->children) {
        const std::vector<double> n = numbers(v, 2);
        if (n[0] <= 0.0 || n[1] <= 0.0 || (!time.table.empty() && n[0] <= time.table.back().first))
          throw InputError(at(v.where) + "amounts ascend, and no number is 0 or less");
        time.table.emplace_back(n[0], n[1]);
      }
    }
    return time;
  }

  static Calibration::Mode read_mode(const Value& v) {
    Options o = options_of(v, "modes", "");
    Calibration::Mode mode;
    mode.mode = o.get("mode", {"graph", "stream"}, "");
    mode.same_ns = estimate(o, "same_ns");
    mode.cross_ns = estimate(o, "cross_ns");
    mode.submit_ns = estimate(o, "submit_ns");
    mode.fan_in_ns = estimate(o, "fan_in_ns");
    const Value* after = o.raw("after", "");
    o.finish();
    if (after == nullptr) return mode;
    for (const auto& [key, entry] : after->children) {
      Options behind = options_of(entry, "modes.after", "");
      mode.after.push_back(
          {behind.get("kind", {"gemm", "ew", "cublas"}, ""), estimate(behind, "same_ns")});
      behind.finish();
    }
    return mode;
  }

  static Calibration::Transfer read_transfer(const Value& v) {
    Options o = options_of(v, "transfers", "");
    Calibration::Transfer t;
    t.mode = o.get("mode", {"graph", "stream"}, "");
    t.way = o.get("way", {"link", "host"}, "");
    t.direction = o.get("direction", "", "");
    t.paced = o.get("paced", false, "");
    t.latency_ns = estimate(o, "latency_ns");
    t.occupancy_ns = estimate(o, "occupancy_ns");
    t.shared = o.get("shared", false, "");
    t.channel_ns = estimate(o, "channel_ns");
    if (t.shared && t.channel_ns == Estimate{}) t.channel_ns = t.occupancy_ns;  // of a file without
    t.in_order = o.get("in_order", false, "");
    t.contention = o.get("contention", 1.0, "");
    t.time = fitted(o);
    o.finish();
    return t;
  }

  static Calibration::OpTime read_op(const Value& v) {
    Options o = options_of(v, "ops", "");
    Calibration::OpTime op;
    op.kind = o.get("kind", {"spin", "gemm", "ew", "cublas"}, "");
    const std::string mode = o.get("mode", {"any", "graph", "stream"}, "");
    if (mode != "any") op.mode = mode;
    op.left_out_error = o.get("left_out_error", 0.0, "");
    op.time = fitted(o);
    o.finish();
    return op;
  }

  static Calibration::Interference read_interference(const Value& v) {
    Options o = options_of(v, "interference", "");
    Calibration::Interference i;
    i.op = o.get("op", "", "");
    i.neighbour = o.get("neighbour", "", "");
    i.per_neighbour = estimate(o, "per_neighbour");
    o.finish();
    return i;
  }

  static Calibration::Bandwidth read_bandwidth(const Value& v) {
    Options o = options_of(v, "bandwidth", "");
    Calibration::Bandwidth b;
    b.capacity = o.get("capacity", 0.0, "");
    const Value* demands = o.raw("demands", "");
    o.finish();
    if (demands == nullptr) return b;
    for (const auto& [key, entry] : demands->children) {
      Options d = options_of(entry, "bandwidth.demands", "");
      b.demands.push_back({d.get("kind", {"spin", "gemm", "ew", "cublas"}, ""),
                           d.get("bytes_per_ns", 0.0, ""), d.get("sensitivity", 0.0, "")});
      d.finish();
    }
    return b;
  }

  const Value& root_;
  Mistakes mistakes_;
};

/// Reads the modes and the effects that are switched off. Returns the file's path.
std::string calibration_options(Options& o, CalibrationChoice& choice) {
  const std::string file = o.path("file", "output of 'baechi validate calibrate'");
  choice.use.mode = o.get("mode", {"graph", "stream"}, "how work is submitted");
  choice.use.way = o.get("way", {"link", "host"}, "how tensors move");
  const Value* off = o.raw("off", "a list of effects to leave out: op_gap, latency, costs");
  if (off == nullptr) return file;
  static const std::vector<std::string> known{"op_gap", "latency", "costs"};
  if (!is_list(*off)) o.mistake("off", "not a list");
  for (const auto& [key, v] : off->children) {
    if (std::ranges::find(known, v.text) == known.end()) {
      o.mistake("off", no_such("effect", v.text, known));
      continue;
    }
    for (const EffectName& effect : effect_names())
      if (effect.name == v.text) choice.use.effects.*(effect.on) = false;
  }
  return file;
}

}  // namespace

std::string calibration_yaml(const Calibration& c) {
  std::string out = fmt::format(
      "schema: {}\ngpu: {}\ndriver: {}\ncuda: {}\nharness: {}\ndate: {}\nsms: {}\n"
      "timer_tick_ns: {}\n# multiprocessors of each device: compute, link\n"
      "partitions: [",
      Calibration::schema, quoted(c.gpu), quoted(c.driver), quoted(c.cuda), quoted(c.harness),
      quoted(c.date), c.sms, c.timer_tick_ns);
  for (std::size_t d = 0; d < c.partitions.size(); ++d)
    out += fmt::format("{}[{}, {}]", d == 0 ? "" : ", ", c.partitions[d].compute,
                       c.partitions[d].link);
  out += "]\n# numbers in threes: estimate, and 95 % interval\nmodes:\n";
  for (const auto& m : c.modes)
    out += fmt::format("- {{mode: {}, same_ns: {}, cross_ns: {}, submit_ns: {}{}}}\n", m.mode,
                       yaml_of(m.same_ns), yaml_of(m.cross_ns), yaml_of(m.submit_ns),
                       optional_keys(m));
  if (!c.transfers.empty()) out += "transfers:\n";
  for (const auto& t : c.transfers)
    out += fmt::format(
        "- {{mode: {}, way: {}, direction: {}, paced: {}, latency_ns: {}, occupancy_ns: {}, "
        "shared: {}, {}contention: {}, {}}}\n",
        t.mode, t.way, quoted(t.direction), t.paced, yaml_of(t.latency_ns), yaml_of(t.occupancy_ns),
        t.shared,
        t.shared ? fmt::format("channel_ns: {}, in_order: {}, ", yaml_of(t.channel_ns), t.in_order)
                 : "",
        t.contention, yaml_of(t.time));
  if (!c.ops.empty()) out += "ops:\n";
  for (const auto& op : c.ops)
    out += fmt::format("- {{kind: {}{}, left_out_error: {}, {}}}\n", op.kind,
                       op.mode.empty() ? "" : ", mode: " + op.mode, op.left_out_error,
                       yaml_of(op.time));
  if (!c.interference.empty())
    out += "# slower by this much per device that runs a neighbour\ninterference:\n";
  for (const auto& i : c.interference)
    out += fmt::format("- {{op: {}, neighbour: {}, per_neighbour: {}}}\n", i.op, i.neighbour,
                       yaml_of(i.per_neighbour));
  if (c.bandwidth.capacity > 0.0)
    out += fmt::format(
        "# bytes per ns of all devices together, and what ops of a kind want\n"
        "bandwidth:\n  capacity: {}\n  demands:\n",
        c.bandwidth.capacity);
  for (const auto& d : c.bandwidth.demands)
    out += fmt::format("  - {{kind: {}, bytes_per_ns: {}, sensitivity: {}}}\n", d.kind,
                       d.bytes_per_ns, d.sensitivity);
  return out;
}

Calibration parse_calibration(std::string_view text, const std::string& path) {
  const Value root = parse_yaml(text, path);
  if (!is_mapping(root)) throw InputError(path + ": not a mapping with the keys of a calibration");
  return Reader(root).read();
}

Calibration read_calibration(const std::string& path) {
  return parse_calibration(read_small_file(path, std::size_t{1} << 20U), path);
}

CalibrationChoice read_calibration_section(const Value& section, const std::string& base,
                                           Mistakes& mistakes) {
  CalibrationChoice choice;
  mistakes.attempt([&] {
    if (is_mapping(section)) {
      need(section, "calibration", {"file"}, mistakes);
      Options o = options_of(section, "calibration", base);
      choice.file = calibration_options(o, choice);
      o.finish();
    } else if (!section.children.empty() || section.text.empty()) {
      throw InputError(at(section.where) + "calibration: not a path or {file, mode, way, off}");
    } else {
      choice.file = resolve_path(section, base);
    }
    if (choice.file.empty()) return;
    try {
      choice.measured = std::make_shared<const Calibration>(read_calibration(choice.file));
    } catch (const InputError& e) {
      throw InputError(fmt::format("{}calibration: {}", at(section.where), e.what()));
    }
  });
  return choice;
}

SectionKeys calibration_section_keys() {
  return {"calibration",
          "measured costs of a machine: such a section, or only the path of the file; each op with "
          "the gap after it, each transfer with its latency",
          keys_of_reader([](Options& o) {
            CalibrationChoice choice;
            calibration_options(o, choice);
          }),
          {"file"}};
}

}  // namespace baechi
