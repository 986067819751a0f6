#include "placers/framework_placement.h"
#include "placers/interface/colocation.h"
#include "placers/interface/placer.h"
#include "sim/text.h"
#include "traces/format/compressed_file.h"

namespace baechi {
namespace {

/// A placement that a person wrote. Its source is one of:
/// - a placement file;
/// - rules on op names, written in the scenario;
/// - a rule file: lines "PATTERN DEVICE", where "#" begins a comment. The rules of the file come
///   after the rules in the scenario.
/// Ignores memory: the engine reports whether the placement fits.
class Expert final : public Placer {
 public:
  explicit Expert(Options& o)
      : file_(o.path("file",
                     "a placement file (baechi-placement, a split {fpgas, cpus}, or what "
                     "--export writes)")),
        rules_(read_rules(o)),
        rule_file_(o.path("rule_file", "the same as lines of PATTERN DEVICE; after 'rules'")),
        default_device_(o.get("default", std::int64_t{-1},
                              "device of the ops that no rule matches; -1: there must be none",
                              -1)) {
    const bool ruled = !rules_.empty() || !rule_file_.empty() || default_device_ >= 0;
    if (!file_.empty() && ruled)
      o.mistake("file", "cannot be combined with 'rules', 'rule_file' or 'default'");
    if (file_.empty() && !ruled)
      o.mistake("file", "missing: give 'file', 'rules', 'rule_file' or 'default'");
    if (!file_.empty()) text_ = read_file(file_);
    if (!rule_file_.empty()) parse_rules(read_file(rule_file_));
  }

  Placement place(const Problem& p, std::uint64_t /*seed*/) const override {
    if (file_.empty()) return by_rules(p);
    Placement result = parse_any_placement(text_, file_, p);
    require_whole_groups(result, p.graph, file_);
    result.own_placing.reset();  // that of the placer that wrote the file
    return result;
  }

 private:
  struct Rule {
    std::string pattern;
    std::int64_t device;
    std::string where;
  };

  static std::optional<std::int64_t> device_number(std::string_view text) {
    const auto number = parse_number<std::int64_t>(text);
    return number && *number >= 0 ? number : std::nullopt;
  }

  static std::vector<Rule> read_rules(Options& o) {
    std::vector<Rule> rules;
    const Options::Value* given =
        o.raw("rules",
              "name pattern (* any letters, ? any one) -> device; the first that matches decides");
    if (given == nullptr) return rules;
    if (given->children.empty()) o.mistake("rules", "is not a mapping such as {'encoder/*': 0}");
    for (const auto& [pattern, value] : given->children) {
      const auto device = device_number(value.text);
      if (pattern.empty()) {
        o.mistake("rules", "is not a mapping such as {'encoder/*': 0}");
      } else if (!device) {
        o.mistake("rules",
                  fmt::format("'{}' -> '{}' is not a device: 0, 1, ...", pattern, value.text));
      }
      rules.push_back({pattern, device.value_or(0), value.where});
    }
    return rules;
  }

  /// Adds the rules in `text` to rules_. Throws InputError that names every line that is not a
  /// pattern and a device.
  void parse_rules(std::string_view text) {
    Mistakes mistakes;
    for (std::size_t line = 1; !text.empty(); ++line) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      const std::vector<std::string_view> words = words_of(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
      if (words.empty()) continue;
      const auto device = words.size() == 2 ? device_number(words[1]) : std::nullopt;
      const std::string where = fmt::format("{}:{}:1", rule_file_, line);
      if (!device)
        mistakes.add(fmt::format("{}: '{}' is not a pattern and a device, such as 'encoder/* 0'",
                                 where, fmt::join(words, " ")));
      rules_.push_back({std::string(words[0]), device.value_or(0), where});
    }
    mistakes.throw_if_any();
  }

  /// The words of `line` before its comment.
  static std::vector<std::string_view> words_of(std::string_view line) {
    constexpr std::string_view blank = " \t\r";
    std::vector<std::string_view> words;
    line = line.substr(0, line.find('#'));
    for (std::size_t begin = line.find_first_not_of(blank); begin != std::string_view::npos;
         begin = line.find_first_not_of(blank)) {
      line.remove_prefix(begin);
      words.push_back(line.substr(0, line.find_first_of(blank)));
      line.remove_prefix(words.back().size());
    }
    return words;
  }

  /// The device of the first rule that matches `name`; nothing if no rule matches.
  std::optional<DeviceId> ruled(std::string_view name) const {
    for (const Rule& rule : rules_)
      if (Wildcard{rule.pattern}.matches(name)) return static_cast<DeviceId>(rule.device);
    return std::nullopt;
  }

  void require_devices(std::size_t num_devices) const {
    const auto beyond = [&](std::int64_t d) {
      return d >= 0 && static_cast<std::size_t>(d) >= num_devices;
    };
    Mistakes mistakes;
    for (const Rule& rule : rules_) {
      if (beyond(rule.device))
        mistakes.add(fmt::format("{}expert.rules: '{}' -> {}, but there are {} devices (0 to {})",
                                 at(rule.where), rule.pattern, rule.device, num_devices,
                                 num_devices - 1));
    }
    if (beyond(default_device_))
      mistakes.add(fmt::format("expert.default: {}, but there are {} devices (0 to {})",
                               default_device_, num_devices, num_devices - 1));
    mistakes.throw_if_any();
  }

  /// The first member that a rule matches decides for its group. `detail` counts the groups whose
  /// members match rules with different devices.
  Placement by_rules(const Problem& p) const {
    require_devices(p.cluster.num_devices());
    const ColocationUnits units(p.graph);
    Placement result{.device = IdVector<OpId, DeviceId>(p.graph.num_ops())};
    std::vector<UnitId> unmatched;
    std::size_t disagreeing = 0;
    for (const UnitId u : units.units()) {
      std::optional<DeviceId> device;
      bool agree = true;
      for (const OpId v : units.members(u)) {
        const auto wanted = ruled(p.graph.name(v));
        if (!device) device = wanted;
        agree = agree && (!wanted || wanted == device);
      }
      if (!agree) ++disagreeing;
      if (!device && default_device_ >= 0) device = static_cast<DeviceId>(default_device_);
      if (!device) unmatched.push_back(u);
      for (const OpId v : units.members(u)) result.device[v] = device.value_or(DeviceId{0});
    }
    refuse(unmatched, units, p.graph);
    if (disagreeing > 0)
      result.detail = fmt::format("{} group{} with rules that differ: the first member decided",
                                  disagreeing, disagreeing == 1 ? "" : "s");
    return result;
  }

  /// Throws InputError if there are units that no rule matches; names at most five of the units.
  static void refuse(std::span<const UnitId> unmatched, const ColocationUnits& units,
                     const OpGraph& graph) {
    constexpr std::size_t listed = 5;
    if (unmatched.empty()) return;
    std::vector<std::string> names;
    for (const UnitId u : unmatched.first(std::min(listed, unmatched.size())))
      names.push_back(units.label(u, graph));
    throw InputError(fmt::format(
        "expert: no rule matches {}{}; add a rule or 'default'", fmt::join(names, ", "),
        unmatched.size() > listed ? fmt::format(" and {} more", unmatched.size() - listed) : ""));
  }

  std::string file_;
  std::string text_;  // content of file_, read in the constructor: a missing file ends the program
                      // before any run
  std::vector<Rule> rules_;
  std::string rule_file_;
  std::int64_t default_device_;
};

}  // namespace

std::unique_ptr<Placer> make_expert(Options& o) { return std::make_unique<Expert>(o); }

}  // namespace baechi
