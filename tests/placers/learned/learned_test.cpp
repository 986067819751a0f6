#include <doctest/doctest.h>
#include <oneapi/tbb/global_control.h>

#include <cmath>

#include "placers/interface/registry.h"
#include "placers/learned/policy_file.h"
#include "sim/engine/simulation.h"
#include "tests/message.h"
#include "tests/placers/learned/kept_problem.h"
#include "tests/random_problems.h"
#include "tests/small_graphs.h"
#include "tests/temporary_folder.h"

using namespace baechi;
using namespace baechi::learned;
using namespace baechi::testing;

namespace {

using Values = std::map<std::string, Options::Value>;

Options::Value text(std::string value) {
  return {.text = std::move(value), .where = {}, .children = {}};
}

std::unique_ptr<Placer> learner(Values values) {
  return make_placer("learned", Options("learned", std::move(values)));
}

/// Four chains of four ops of 10 ns, tensors of 5 bytes: 40 ns on four devices, 160 on one.
OpGraph four_chains() {
  OpGraphBuilder g;
  for (int c = 0; c < 4; ++c) {
    OpId before = no_op;
    for (int i = 0; i < 4; ++i) {
      const OpId v =
          g.add_op({.name = "c" + std::to_string(c) + "_" + std::to_string(i), .compute = 10ns});
      if (before != no_op) g.add_edge(g.add_tensor(before, 5_B), v);
      before = v;
    }
  }
  return std::move(g).build();
}

std::vector<double> trained(const std::vector<const Environment*>& on,
                            const TrainingSettings& settings) {
  Training training(on, settings);
  while (!training.done()) training.update();
  return {training.weights().begin(), training.weights().end()};
}

std::string mistakes(const std::string& policy) {
  return message<InputError>([&] { parse_policy(policy, "p.policy"); });
}

}  // namespace

TEST_SUITE("placers/learned") {
  /// Each chain on a device of its own is 40 ns.
  TEST_CASE("a network finds the best placement of four chains") {
    const Kept k(four_chains(), 4);
    const Placement p = learner({{"evaluations", text("1500")}})->place(k.problem(), 1);
    CHECK(simulate(k.problem(), p).makespan == 40ns);
    CHECK(p.facts.at("found_us") == doctest::Approx(to_us(40ns)));
    CHECK(p.facts.at("last_mean") < 0.9 * p.facts.at("first_mean") + 0.11);
  }

  /// Without imitation the first samples are random; the last tenth is at least 10 % better.
  TEST_CASE("without a teacher it learns all the same") {
    const Kept k(four_chains(), 4);
    const Placement p =
        learner({{"evaluations", text("2000")}, {"imitate", text("false")}})->place(k.problem(), 3);
    CHECK(p.facts.at("last_mean") < 0.9 * p.facts.at("first_mean"));
  }

  TEST_CASE("the same bytes on 1, 2 and 8 threads") {
    Random random(5);
    const Kept k(random_graph({.ops = 60}, random), 3);
    for (const char* as : {"list", "placeto", "grouped"}) {
      std::vector<Placement> answers;
      for (const std::size_t threads : {1U, 2U, 8U}) {
        const oneapi::tbb::global_control limit(
            oneapi::tbb::global_control::max_allowed_parallelism, threads);
        answers.push_back(
            learner({{"as", text(as)}, {"evaluations", text("300")}})->place(k.problem(), 7));
      }
      CHECK(answers[0].device == answers[1].device);
      CHECK(answers[0].device == answers[2].device);
    }
  }

  TEST_CASE("training that is stopped and resumed ends with the same weights") {
    Random random(11);
    const Kept a(random_graph({.ops = 30}, random), 2), b(random_graph({.ops = 40}, random), 4);
    const auto objective = step_time();
    const Environment first(a.problem(), *objective, 0), second(b.problem(), *objective, 0);
    const TrainingSettings settings{.evaluations = 240, .seed = 4};
    const std::vector<double> whole = trained({&first, &second}, settings);

    Training half({&first, &second}, settings);
    while (half.state().evaluations < 100) half.update();
    const std::string written =
        stopped_text({"d", settings, half.state(), half.samples(), {{8, 0.5, 1.5, 1.25}}});
    StoppedTraining stopped = parse_stopped(written, "x.training");
    CHECK(stopped.settings == settings);
    CHECK(stopped.digest == "d");
    CHECK(stopped.curve.front().best == 1.25);
    Training rest({&first, &second}, settings);
    rest.resume(std::move(stopped.state), std::move(stopped.samples));
    while (!rest.done()) rest.update();
    CHECK(std::vector<double>(rest.weights().begin(), rest.weights().end()) == whole);
  }

  TEST_CASE("a policy is read as it was written, in less than 100 kB") {
    const Network network = list_network();
    Policy policy{"a \"scenario\"", "00ff", 123, 5, network.initial(1)};
    for (double& w : policy.weights) w = std::round(w * 16384) / 16384;
    const std::string written = policy_text(policy);
    CHECK(written.size() < 100'000);
    const Policy read = parse_policy(written, "p.policy");
    CHECK(read.weights == policy.weights);
    CHECK(read.scenario == policy.scenario);
    CHECK(read.evaluations == 123);
    CHECK(policy_text(read) == written);
  }

  TEST_CASE("mistakes in a policy are told with their places") {
    const std::string good = policy_text({"s", "d", 1, 1, list_network().initial(1)});
    const auto with = [&](const std::string& before, const std::string& after) {
      std::string changed = good;
      changed.replace(changed.find(before), before.size(), after);
      return mistakes(changed);
    };
    CHECK(with("\"baechi-policy\"", "\"policy\"") ==
          "p.policy:1:12: format: this is no baechi-policy file");
    CHECK(with("\"version\": 1", "\"version\": 2") ==
          "p.policy:1:40: version: another version of this format: this program reads version 1");
    CHECK(with("\"time\"", "\"length\"").starts_with("p.policy:4:19: features: this program's"));
    CHECK(with("\"hidden\": 32", "\"hidden\": 64") ==
          "p.policy:6:12: hidden: this program's policies have 32");
    CHECK(with("\"weights\": [", "\"weights\": [1e999,").find("is not a finite number") !=
          std::string::npos);
    CHECK(with("\"weights\": [", "\"weights\": [0,").find("the network has") != std::string::npos);
    CHECK(mistakes("{}").find("a policy needs a key 'format'") != std::string::npos);
    CHECK(mistakes("[").starts_with("p.policy:1:"));
  }

  /// A policy that was trained on one graph places another, drawn and greedily, and more draws are
  /// never worse.
  TEST_CASE("a policy places a graph that it has not seen") {
    Random random(2);
    const Kept seen(four_chains(), 4), unseen(random_graph({.ops = 50}, random), 3);
    const auto objective = step_time();
    const Environment environment(seen.problem(), *objective, 0);
    const TemporaryFolder folder;
    folder.write("p.policy", policy_text({"four chains", "d", 400, 1,
                                          trained({&environment}, {.evaluations = 400})}));
    const std::string file = folder.file("p.policy");
    const Placement greedy = learner({{"policy", text(file)}})->place(unseen.problem(), 1);
    CHECK(greedy.facts.at("evaluations") == 1.0);
    const Placement drawn =
        learner({{"policy", text(file)}, {"samples", text("50")}})->place(unseen.problem(), 1);
    CHECK(drawn.facts.at("evaluations") == 51.0);
    CHECK(simulate(unseen.problem(), drawn).makespan <=
          simulate(unseen.problem(), greedy).makespan);
    const Placement tuned =
        learner({{"policy", text(file)}, {"evaluations", text("80")}})->place(unseen.problem(), 1);
    CHECK(tuned.facts.at("evaluations") == 81.0);
    // As a start of a search, which answers nothing worse than any of its starts.
    const auto choice = [](std::string key,
                           std::vector<std::pair<std::string, Options::Value>> in) {
      return std::pair{std::move(key),
                       Options::Value{.text = {}, .where = {}, .children = std::move(in)}};
    };
    Values options{{"evaluations", text("40")}};
    options["portfolio"] =
        choice("",
               {choice("", {choice("learned", {{"policy", text(file)}, {"samples", text("50")}})})})
            .second;
    const Placement searched =
        make_placer("search", Options("search", std::move(options)))->place(unseen.problem(), 1);
    CHECK(simulate(unseen.problem(), searched).makespan <=
          simulate(unseen.problem(), drawn).makespan);
    CHECK(message<InputError>([&] {
            learner({{"policy", text(file)}, {"as", text("placeto")}});
          }).find("only 'as: list' acts by a policy") != std::string::npos);
  }

  /// It walks beside the others, on as many evaluations as one of the four, which walk as they
  /// would without it: 40 + 10.
  TEST_CASE("as a start of a search a learned placer never makes the answer worse") {
    const auto with = [](const std::vector<std::string>& names) {
      Options::Value list{.text = {}, .where = {}, .children = {}};
      for (const std::string& name : names) {
        Options::Value item = text(name);
        if (name == "learned") {
          Options::Value options{
              .text = {}, .where = {}, .children = {{"evaluations", text("16")}}};
          item = {.text = {}, .where = {}, .children = {{name, std::move(options)}}};
        }
        list.children.emplace_back("", std::move(item));
      }
      return make_placer("search", Options("search", {{"evaluations", text("40")},
                                                      {"portfolio", std::move(list)}}));
    };
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      CAPTURE(seed);
      Random random(seed);
      const Kept k(random_graph({.ops = 40}, random), 3);
      const Placement without = with({"m_etf", "m_topo"})->place(k.problem(), seed);
      const Placement learned = with({"m_etf", "m_topo", "learned"})->place(k.problem(), seed);
      CHECK(simulate(k.problem(), learned).makespan <= simulate(k.problem(), without).makespan);
      CHECK(without.facts.at("evaluations") == 40.0);
      CHECK(learned.facts.at("evaluations") == 50.0);
    }
    CHECK(with({"learned"})->place(Kept(four_chains(), 4).problem(), 1).facts.at("evaluations") ==
          40.0);
  }

  /// 60 bytes of weights each, 100 per device: two ops on a device do not fit.
  TEST_CASE("what does not fit is worth more than what fits") {
    OpGraphBuilder g;
    for (const char* name : {"a", "b"})
      g.add_op({.name = name, .compute = 10ns, .persistent = 60_B});
    const Kept k(std::move(g).build(), 2, 100_B);
    const auto objective = step_time();
    const Environment environment(k.problem(), *objective, 0);
    const auto value = [&](DeviceId a, DeviceId b) {
      return environment.value(objective->score(k.problem(), environment.placement({a, b})));
    };
    CHECK(value(gpu0, gpu1) == 10.0);
    CHECK(value(gpu0, gpu0) >= 2.0 * environment.reference());
    const Placement p = learner({{"evaluations", text("40")}})->place(k.problem(), 1);
    CHECK(p.device[OpId{0}] != p.device[OpId{1}]);
  }

  TEST_CASE("more than 400 units are merged to at most 256 blocks, members together") {
    Random random(3);
    const Kept k(random_graph({.ops = 900}, random), 3);
    const auto objective = step_time();
    const Environment environment(k.problem(), *objective, 0);
    CHECK(environment.num_bundles() <= Environment::most_bundles);
    std::size_t members = 0;
    for (std::size_t b = 0; b < environment.num_bundles(); ++b)
      members += environment.members(b).size();
    CHECK(members == k.graph.num_ops());
    for (const GroupId group : k.graph.groups())
      for (const OpId v : k.graph.members(group))
        CHECK(environment.bundle(v) == environment.bundle(k.graph.members(group).front()));
  }
}
