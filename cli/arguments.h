/// Flags that several verbs share: of traces, clusters, engines.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "cli/verbs.h"
#include "scenarios/read/choice_text.h"
#include "scenarios/run/platform.h"

namespace baechi {

struct TraceArgument {
  std::string path;
  std::string importer;  ///< for parse_choice(); "": chosen by the file's content
};
void add_trace_argument(CLI::App& verb, TraceArgument& argument);
/// Reads the graph, with progress on standard error. The default name is the file's without folder
/// and last extension.
Trace read_trace(const TraceArgument& argument);

/// Adds a verb with flags, the parameter of `run`, which is called if the verb is parsed.
template <class Flags>
std::pair<CLI::App*, Flags*> add_verb(CLI::App& app, Verb& chosen, const std::string& name,
                                      const std::string& help, int (*run)(const Flags&)) {
  const auto flags = std::make_shared<Flags>();
  CLI::App* verb = app.add_subcommand(name, help);
  verb->callback([flags, run, &chosen] { chosen = [flags, run] { return run(*flags); }; });
  return {verb, flags.get()};
}
/// Adds a flag or argument with a value, which help calls `type`.
template <class Value>
CLI::Option* add_value(CLI::App& verb, const std::string& name, Value& value,
                       const std::string& type, const std::string& help) {
  return verb.add_option(name, value, help)->type_name(type);
}
/// Adds a required positional argument, which may have several values.
template <class Value>
CLI::Option* add_argument(CLI::App& verb, const std::string& name, Value& value,
                          const std::string& help) {
  return add_value(verb, name, value, "", help)->required();
}
template <class Value, class Limit>
CLI::Option* add_number(CLI::App& verb, const std::string& name, Value& value, Limit least,
                        Limit most, const std::string& help, const std::string& type = "N") {
  return add_value(verb, name, value, type, help)->check(CLI::Range(least, most));
}
template <class Value>
CLI::Option* add_repeated(CLI::App& verb, const std::string& name, std::vector<Value>& values,
                          const std::string& type, const std::string& help) {
  return add_value(verb, name, values, type, help)->take_all()->allow_extra_args(false);
}

/// Adds --format: one of `formats`, by default the first.
void add_format(CLI::App& verb, std::string& format, std::vector<std::string> formats);

/// A CLI11 check for a whole number from 0 to 2^63 - 1. CLI11 itself reads -1 as 2^64 - 1.
CLI::Validator is_seed();

template <NamedEnum E>
CLI::IsMember one_of() {
  constexpr auto known = all_words<E>();
  return CLI::IsMember(std::vector<std::string>(known.begin(), known.end()));
}

void add_cluster_flags(CLI::App& verb, PlatformFlags& flags);

/// Reads the trace and builds its experiment. The cluster is
/// - that of --scenario, with its engine and transforms: the first point of a sweep, which is
///   printed on standard error;
/// - else that of the flags, if one of them describes the cluster;
/// - else that of the trace, with its transfer times.
/// `transforms` replace the scenario's. Throws InputError with all missing or wrong flags, or the
/// mistakes in the trace.
TraceExperiment read_experiment(
    const TraceArgument& argument, const PlatformFlags& flags,
    std::optional<std::vector<TransformChoice>> transforms = std::nullopt);

/// Text about the op times: the assumed device type, if none was given, or that they are not of the
/// given type; and the evidence for the device models.
std::string times_line(const Experiment& experiment);
/// Adds the same as keys of `json`.
void add_times(nlohmann::ordered_json& json, const Experiment& experiment);

/// [{of, fitted}, ...]
nlohmann::ordered_json evidence_json(const std::vector<Evidence>& evidence);

}  // namespace baechi
