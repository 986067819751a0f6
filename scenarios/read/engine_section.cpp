#include "scenarios/read/section.h"
#include "scenarios/read/sections.h"
#include "sim/options.h"
#include "sim/problem/engine_options.h"

namespace baechi {
namespace {

using Value = Options::Value;

EngineOptions engine_options(Options& o) {
  EngineOptions e;
  e.semantics = read_enum(o, "semantics", e.semantics,
                          "event: event simulation; baechi: the original's list simulation");
  e.transfers = read_enum(o, "transfers", e.transfers, "which transfers run concurrently");
  e.queue = read_enum(o, "queue", e.queue, "which ready op runs next");
  e.cache_tensors = o.get("cache_tensors", e.cache_tensors,
                          "transfer a tensor to a device once, for all its readers");
  e.overlap = o.get("overlap", e.overlap, "overlap compute with transfers");
  e.enforce_memory =
      o.get("enforce_memory", e.enforce_memory, "stop at the first request over a device's limit");
  e.overlapped = o.get("overlapped", e.overlapped,
                       "factor on a collective that starts while a member computes", 1.0, 100.0);
  e.disturbed = o.get("disturbed", e.disturbed,
                      "factor on an op that starts while its device runs a collective", 1.0, 100.0);
  return e;
}

ProfileChoice profile_options(Options& o) {
  ProfileChoice profile;
  profile.error =
      o.get("error", 0.0,
            "op and transfer times that placers see have an error factor uniform in 1 +- "
            "this, drawn per seed");
  if (profile.error >= 1.0) o.mistake("error", "not below 1");
  profile.transfers = read_enum_unless<Transfers>(
      o, "transfers", "engine", "the value of engine.transfers that placers assume");
  return profile;
}

}  // namespace

EngineOptions read_engine(const Value& section, Mistakes& mistakes) {
  EngineOptions engine;
  mistakes.attempt([&] {
    engine = read_section(section, "engine", [](Options& o) { return engine_options(o); });
  });
  return engine;
}

ProfileChoice read_profile(const Value& section, Mistakes& mistakes) {
  ProfileChoice profile;
  mistakes.attempt([&] {
    profile = read_section(section, "profile", [](Options& o) { return profile_options(o); });
  });
  return profile;
}

std::vector<SectionKeys> engine_section_keys() {
  return {{"engine",
           "how the step is executed",
           keys_of_reader([](Options& o) { engine_options(o); }),
           {}},
          {"profile",
           "the costs as placers see them",
           keys_of_reader([](Options& o) { profile_options(o); }),
           {}}};
}

}  // namespace baechi
