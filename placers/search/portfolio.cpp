#include "placers/search/portfolio.h"

#include <oneapi/tbb/parallel_for.h>

#include "placers/interface/registry.h"
#include "sim/processor_time.h"

namespace baechi::search {
Portfolio::Portfolio(Options& options, std::string_view objective, bool fallback) {
  if (const Options::Value* given =
          options.raw("portfolio",
                      "list of placers whose placements the search starts from; default: all that "
                      "are quick on the graph")) {
    if (given->children.empty()) add(options, *given);
    for (const auto& [key, choice] : given->children) {
      if (key.empty())
        add(options, choice);
      else
        options.mistake("portfolio", fmt::format("'{}' is not an item of a list", key));
    }
  } else {
    add_quick(objective, fallback);
  }
  const std::string start =
      options.path("start", "a placement file to start from, in addition to the portfolio");
  if (!start.empty())
    members_.push_back(
        {"start", make_placer("expert", Options("expert", {{"file", {start, {}, {}}}}))});
}

void Portfolio::add_quick(std::string_view objective, bool fallback) {
  for (const PlacerEntry& entry : placers()) {
    if (entry.quick_ops == 0) continue;
    const std::string name(entry.name);
    Options::Value other{fallback && name == "m_etf" ? "true" : "false", {}, {}};
    members_.push_back({name, make_placer(name, Options(name, {{"fallback", std::move(other)}})),
                        entry.quick_ops});
  }
  constexpr std::size_t most_ops = 5'000;
  const auto add_made = [&](const std::string& name, std::map<std::string, Options::Value> values) {
    members_.push_back({name, make_placer(name, Options(name, std::move(values))), most_ops});
  };
  const Options::Value none{"0", {}, {}};
  if (objective == "max_load") {
    add_made("exact_dp", {{"max_ideals", {"20000", {}, {}}}});
    add_made("mip_max_load", {{"max_nodes", none}, {"search", none}});
  }
  if (objective == "latency") add_made("mip_latency", {{"max_nodes", none}, {"search", none}});
  if (objective == "step_time")
    members_.push_back({.name = "auto", .placer = make_placer("auto"), .only_if_best = true});
}

/// `choice` is the name of a placer, or its name and options.
void Portfolio::add(Options& options, const Options::Value& choice) {
  const bool named = choice.children.empty();
  if (!named && (choice.children.size() > 1 || choice.children.front().first.empty()))
    return options.mistake("portfolio", "an item is a placer's name, or {name: {options}}");
  const std::string& name = named ? choice.text : choice.children.front().first;
  std::map<std::string, Options::Value> values;
  if (!named) {
    for (const auto& [key, value] : choice.children.front().second.children)
      values.emplace(key, value);
  }
  if (name == "search")
    return options.mistake("portfolio", "a search cannot start from another search");
  members_.push_back(
      {name, make_placer(name, Options(name, std::move(values), options.base()), choice.where)});
}

std::vector<Candidate> Portfolio::run(const Problem& problem, const Objective& objective,
                                      std::uint64_t seed, Clock::time_point until) const {
  std::vector<std::optional<Candidate>> answers(members_.size());
  oneapi::tbb::parallel_for(
      std::size_t{0}, members_.size(), part_of_this_task([&](std::size_t i) {
        if (problem.graph.num_ops() > members_[i].most_ops) return;
        if (i > 0 && Clock::now() >= until) return;
        const std::string& name = members_[i].name;
        if (name != "start" && refusal(placer_entry(name), problem.graph)) return;
        try {
          Placement placement = members_[i].placer->place(problem, seed);
          placement.facts.clear();  // replicas: a search has one device for each op
          const Score score = objective.score(problem, placement);
          std::string by = placement.placed_by.empty() ? name : placement.placed_by;
          answers[i] = {std::move(by), std::move(placement), score, members_[i].only_if_best};
        } catch (const InfeasibleError&) {  // another placer may fit
        }
      }));
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto is_worse = [&](const Candidate& c) { return answers[i]->score < c.score; };
    if (answers[i] && (!members_[i].only_if_best || std::ranges::all_of(candidates, is_worse)))
      candidates.push_back(std::move(*answers[i]));
  }
  std::ranges::stable_sort(candidates, std::less<>(), &Candidate::score);
  return candidates;
}

}  // namespace baechi::search
