#include <algorithm>

#include "scenarios/read/calibration_file.h"
#include "scenarios/read/paths.h"
#include "scenarios/read/section.h"
#include "scenarios/read/sections.h"
#include "scenarios/read/tree.h"
#include "sim/options.h"

namespace baechi {
namespace {

using Value = Options::Value;

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
