#include "placers/learned/grouped.h"

#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <map>
#include <utility>

#include "placers/interface/memory_floor.h"
#include "placers/learned/arithmetic.h"
#include "placers/learned/describe.h"
#include "sim/processor_time.h"

namespace baechi::learned {
namespace {

constexpr std::size_t group_width = group_device_features.size();

}  // namespace

GroupedEpisode::GroupedEpisode(const Environment& environment)
    : environment_(environment),
      devices_(environment.problem().cluster.num_devices()),
      groups_(std::min({std::size_t{256}, 20 * devices_, environment.num_bundles()})),
      grouper_(groups_ * unit_feature_names.size()),
      limit_(memory_limits(environment.problem())),
      choices_(
          Network({.unit_features = unit_feature_names.size(), .device_features = group_width})) {
  const OpGraph& graph = environment.problem().graph;
  std::map<std::pair<std::size_t, std::size_t>, double> bytes;
  for (const OpId v : graph.ops())
    for (const EdgeId e : graph.out_edges(v)) {
      const Edge& edge = graph.edge(e);
      const std::size_t from = environment.bundle(v), to = environment.bundle(edge.dst);
      if (from != to)
        bytes[{from, to}] += static_cast<double>(graph.tensor(edge.tensor).size.count);
    }
  for (const auto& [ends, sum] : bytes)
    traffic_.push_back({static_cast<std::uint32_t>(ends.first),
                        static_cast<std::uint32_t>(ends.second), std::max(sum, 1.0)});
}

std::vector<double> GroupedEpisode::initial(std::uint64_t seed) const {
  std::vector<double> weights(grouper_);
  Random random(seed ^ 0x6709b5U);
  for (double& w : weights) w = 2.0 * random.uniform() - 1.0;
  const std::vector<double> network = choices_.network().initial(seed);
  weights.insert(weights.end(), network.begin(), network.end());
  return weights;
}

const BundleDevices& GroupedEpisode::act(std::span<const double> weights, Random& random) {
  draw_groups(weights, &random);
  describe_groups();
  place_groups(weights, &random);
  result_.clear();
  for (std::size_t b = 0; b < environment_.num_bundles(); ++b)
    result_.push_back(device_of(b, group_device_[group_of_[b]]));
  return result_;
}

DeviceId GroupedEpisode::device_of(std::size_t bundle, DeviceId wanted) const {
  const auto able = environment_.able(bundle);
  return std::ranges::binary_search(able, wanted) ? wanted : able.front();
}

double GroupedEpisode::surprise(std::span<const double> weights) {
  draw_groups(weights, nullptr);
  place_groups(weights, nullptr);
  double groups = 0.0, devices = 0.0;
  for (std::size_t b = 0; b < group_of_.size(); ++b)
    groups -= logarithm(std::max(group_chances_[b * groups_ + group_of_[b]], 1e-300));
  for (std::size_t i = 0; i < choices_.size(); ++i) devices += choices_.surprise(i);
  return groups / static_cast<double>(group_of_.size()) +
         devices / static_cast<double>(choices_.size());
}

/// Without `random` the groups stay as they are, and only the chances are found.
void GroupedEpisode::draw_groups(std::span<const double> weights, Random* random) {
  const std::size_t bundles = environment_.num_bundles(), width = unit_width();
  const std::vector<double>& features = environment_.graph().features;
  group_chances_.assign(bundles * groups_, 0.0);
  group_of_.resize(bundles);
  std::vector<double> scores(groups_);
  for (std::size_t b = 0; b < bundles; ++b) {
    std::ranges::fill(scores, 0.0);
    for (std::size_t i = 0; i < width; ++i)
      for (std::size_t g = 0; g < groups_; ++g)
        scores[g] += features[b * width + i] * weights[i * groups_ + g];
    const auto chances = std::span(group_chances_).subspan(b * groups_, groups_);
    chances_of(scores, chances);
    if (random != nullptr) group_of_[b] = static_cast<std::uint32_t>(drawn(chances, *random));
  }
}

/// Members, needs, traffic, features and neighbours of the groups. Empty groups stay, without
/// neighbours.
void GroupedEpisode::describe_groups() {
  const std::size_t width = unit_width();
  members_.assign(groups_, {});
  needs_.assign(groups_, {});
  graph_ = {.units = groups_,
            .features = std::vector<double>(groups_ * width),
            .parents = {},
            .children = {}};
  for (std::size_t b = 0; b < group_of_.size(); ++b) {
    const std::size_t g = group_of_[b];
    members_[g].push_back(static_cast<std::uint32_t>(b));
    needs_[g].persistent += environment_.needs(b).persistent;
    needs_[g].working = std::max(needs_[g].working, environment_.needs(b).working);
    for (std::size_t i = 0; i < width; ++i)
      graph_.features[g * width + i] += environment_.graph().features[b * width + i];
  }
  for (std::size_t g = 0; g < groups_; ++g)
    for (std::size_t i = 0; i < width; ++i)
      graph_.features[g * width + i] /=
          static_cast<double>(std::max<std::size_t>(members_[g].size(), 1));
  between_.assign(groups_ * groups_, 0.0);
  for (const Traffic& t : traffic_)
    between_[group_of_[t.from] * groups_ + group_of_[t.to]] += t.bytes;
  for (std::size_t g = 0; g < groups_; ++g) {
    for (std::size_t other = 0; other < groups_; ++other) {
      if (other == g) continue;
      if (between_[other * groups_ + g] > 0.0)
        graph_.parents.of.push_back(static_cast<std::uint32_t>(other));
      if (between_[g * groups_ + other] > 0.0)
        graph_.children.of.push_back(static_cast<std::uint32_t>(other));
    }
    graph_.parents.begin.push_back(static_cast<std::uint32_t>(graph_.parents.of.size()));
    graph_.children.begin.push_back(static_cast<std::uint32_t>(graph_.children.of.size()));
  }
}

/// Without `random` the devices stay as they are, and only the chances are found.
void GroupedEpisode::place_groups(std::span<const double> weights, Random* random) {
  const auto of_network = weights.subspan(grouper_);
  choices_.network().embed(of_network, graph_, embedding_);
  if (random == nullptr) {
    for (std::size_t i = 0; i < choices_.size(); ++i)
      choices_.score_again(i, of_network, embedding_);
    return;
  }
  choices_.clear();
  group_device_.assign(groups_, DeviceId{0});
  placed_.assign(groups_, false);
  used_.assign(devices_, UnitNeeds{});
  load_.assign(devices_, 0.0);
  for (const std::uint32_t first : group_of_) {  // bundles ascend: the order of the first members
    if (placed_[first]) continue;
    find_able(first);
    find_device_features(first);
    const std::size_t choice =
        drawn(choices_.offer(of_network, embedding_, first, features_), *random);
    choices_.take(choice);
    const DeviceId d = able_[choice];
    group_device_[first] = d;
    placed_[first] = true;
    used_[d].persistent += needs_[first].persistent;
    used_[d].working = std::max(used_[d].working, needs_[first].working);
    for (const std::uint32_t b : members_[first]) {
      const DeviceId runs = device_of(b, d);
      load_[runs] += environment_.time(b, runs);
    }
  }
}

/// Those that can run the most of its members; of these the ones with room, if there are any.
void GroupedEpisode::find_able(std::size_t group) {
  runs_.assign(devices_, 0);
  for (const std::uint32_t b : members_[group])
    for (const DeviceId d : environment_.able(b)) ++runs_[index(d)];
  const std::size_t most = *std::ranges::max_element(runs_);
  able_.clear();
  roomy_.clear();
  for (const DeviceId d : environment_.problem().cluster.devices()) {
    if (runs_[index(d)] < most) continue;
    able_.push_back(d);
    const Bytes working = std::max(used_[d].working, needs_[group].working);
    if (used_[d].persistent + needs_[group].persistent + working <= limit_[d]) roomy_.push_back(d);
  }
  if (!roomy_.empty()) std::swap(able_, roomy_);
}

/// For the devices in able_.
void GroupedEpisode::find_device_features(std::size_t group) {
  features_.resize(able_.size() * group_width);
  time_.assign(able_.size(), 0.0);
  double least = 1e300, fastest = 1e300, traffic = 0.0;
  there_.assign(devices_, 0.0);
  std::size_t placed = 0;
  for (std::size_t g = 0; g < groups_; ++g) {
    if (g == group) continue;
    const double bytes = between_[g * groups_ + group] + between_[group * groups_ + g];
    traffic += bytes;
    if (!placed_[g]) continue;
    ++placed;
    there_[group_device_[g]] += bytes;
  }
  for (std::size_t i = 0; i < able_.size(); ++i) {
    least = std::min(least, load_[able_[i]]);
    for (const std::uint32_t b : members_[group])
      if (std::ranges::binary_search(environment_.able(b), able_[i]))
        time_[i] += environment_.time(b, able_[i]);
    fastest = std::min(fastest, time_[i]);
  }
  const double scale = 1.0 / (0.25 * environment_.mean_load() + fastest);
  for (std::size_t i = 0; i < able_.size(); ++i) {
    const DeviceId d = able_[i];
    double* const f = features_.data() + i * group_width;
    f[0] = squashed((load_[d] - least) * scale);
    f[1] = traffic > 0.0 ? there_[d] / traffic : 0.0;
    f[2] = free_share(limit_[d] - used_[d].persistent - used_[d].working, limit_[d]);
    f[3] = time_[i] > 0.0 ? fastest / time_[i] : 1.0;
    f[4] = load_[d] > 0.0 ? 0.0 : 1.0;
    f[5] = static_cast<double>(placed) / static_cast<double>(groups_);
  }
}

void GroupedEpisode::gradient(std::span<const double> weights, double advantage, double entropy,
                              std::span<double> gradient) {
  const std::size_t bundles = group_of_.size(), width = unit_width();
  const std::vector<double>& features = environment_.graph().features;
  std::vector<double> scores(groups_), logs;
  for (std::size_t b = 0; b < bundles; ++b) {
    std::ranges::fill(scores, 0.0);
    choice_gradient(std::span(group_chances_).subspan(b * groups_, groups_), group_of_[b],
                    advantage, entropy, 1.0 / static_cast<double>(bundles), scores, logs);
    for (std::size_t i = 0; i < width; ++i)
      for (std::size_t g = 0; g < groups_; ++g)
        gradient[i * groups_ + g] += features[b * width + i] * scores[g];
  }
  const auto of_network = weights.subspan(grouper_);
  const auto its_gradient = gradient.subspan(grouper_);
  std::vector<double> keys(embedding_.keys.size(), 0.0);
  const double share = 1.0 / static_cast<double>(choices_.size());
  for (std::size_t i = 0; i < choices_.size(); ++i)
    choices_.add_gradient(i, of_network, embedding_, advantage, entropy, share, its_gradient, keys);
  choices_.network().embed_gradient(of_network, graph_, embedding_, keys, its_gradient);
}

Found learn_groups(const Environment& environment, const TrainingSettings& settings,
                   const std::atomic<bool>* stop) {
  constexpr double first_rate = 1e-2, last_rate = 1e-3;
  struct Worker {
    explicit Worker(const Environment& environment)
        : episode(environment), evaluator(environment.objective().on(environment.problem())) {}
    GroupedEpisode episode;
    std::unique_ptr<Evaluator> evaluator;
    BundleDevices devices{};
    Score score{};
    std::vector<double> gradient{};
  };
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::size_t i = 0; i < Training::batch; ++i)
    workers.push_back(std::make_unique<Worker>(environment));
  Adam adam(workers.front()->episode.initial(settings.seed));
  Keeper keeper(environment);
  for (std::size_t update = 0; !keeper.over(settings.evaluations, stop); ++update) {
    const double progress =
        static_cast<double>(keeper.evaluations()) / static_cast<double>(settings.evaluations);
    const std::size_t count =
        std::min(Training::batch, settings.evaluations - keeper.evaluations());
    oneapi::tbb::parallel_for(std::size_t{0}, count, part_of_this_task([&](std::size_t i) {
                                Worker& w = *workers[i];
                                Random random = random_of(settings.seed, update, i);
                                w.devices = w.episode.act(adam.weights, random);
                                w.score = w.evaluator->score(environment.placement(w.devices));
                              }));
    std::vector<double> values;
    for (std::size_t i = 0; i < count; ++i) {
      keeper.take(workers[i]->devices, workers[i]->score);
      values.push_back(environment.value(workers[i]->score));
    }
    const std::vector<double> advantages = advantages_of(values);
    oneapi::tbb::parallel_for(std::size_t{0}, count, part_of_this_task([&](std::size_t i) {
                                Worker& w = *workers[i];
                                w.gradient.assign(adam.weights.size(), 0.0);
                                w.episode.gradient(adam.weights, advantages[i],
                                                   Training::first_entropy * (1.0 - progress),
                                                   w.gradient);
                              }));
    std::vector<double> gradient(adam.weights.size(), 0.0);
    for (std::size_t i = 0; i < count; ++i)  // in this order, whoever was first
      for (std::size_t k = 0; k < gradient.size(); ++k)
        gradient[k] += workers[i]->gradient[k] / static_cast<double>(count);
    adam.step(gradient, first_rate * exponential(progress * logarithm(last_rate / first_rate)));
  }
  return keeper.found();
}

}  // namespace baechi::learned
