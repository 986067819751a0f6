#include <cstdio>
#include <cstring>
#include <iterator>
#include <span>

#include "validate/cuda/measure.h"
#include "validate/cuda/run_folder.h"

namespace {

using namespace baechi::validate;
using namespace baechi::validate::replay;

constexpr const char* usage =
    R"(baechi_replay --check PLAN...          are these plans good? needs no GPU
baechi_replay PLAN... -o FOLDER        replays them: steps.csv, timeline.csv, machine.txt
baechi_replay --measure -o FOLDER      micro-benchmarks: measurements.csv, machine.txt
baechi_replay --settle -o FOLDER       what is not proven yet, on this GPU: settled.txt

  --devices N      into how many devices the GPU is cut [4]
  --seconds S      begin no pass later [measure 150, replay 240]
  --passes N       timed passes at most [30]
  --warm-up N      passes before that [replay 5]
  --rounds N       replay all that N times, for the noise floor [2]
  --timelines N    tell the tasks' times of the first N replays of a plan [3]
  --seed N         of the random order [1]
  --cublas         measure what cuBLAS takes instead
  --no-partitions  cap grids instead of cutting the GPU: where green contexts do not work
  --mode stream    replay plans of mode graph so: where captures fail
  --more           add to FOLDER's files, and leave out what failed there before

FOLDER/failed.txt names what failed; all else is measured all the same.
Exit codes: 0 done; 1 something failed; 2 bad plan or flag; 3 the GPU failed for good in this process,
and another may go on with --more; 77 no usable GPU.
)";

enum class Verb { check, replay, measure, settle };

struct Arguments {
  Verb verb = Verb::replay;
  std::vector<std::string> plans;
  std::string folder;
  int devices = 4, passes = 30, warm_up = 5, rounds = 2, timelines = 3;
  double seconds = 0;  ///< 0: each verb's own
  std::uint64_t seed = 1;
  bool cublas = false, green_contexts = true, more = false, streams = false;
};

template <class Number>
Number number(std::string_view flag, std::string_view text, Number low, Number high) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < low || value > high)
    throw BadInput(std::string(flag) + ": '" + std::string(text) + "' is no number from " +
                   std::to_string(low) + " to " + std::to_string(high));
  return value;
}

Arguments parse(std::span<char*> words) {
  Arguments a;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view flag = words[i];
    const auto value = [&]() -> std::string_view {
      if (i + 1 == words.size()) throw BadInput(std::string(flag) + " wants a value");
      return words[++i];
    };
    if (flag == "--check")
      a.verb = Verb::check;
    else if (flag == "--measure")
      a.verb = Verb::measure;
    else if (flag == "--settle")
      a.verb = Verb::settle;
    else if (flag == "--cublas")
      a.cublas = true;
    else if (flag == "--more")
      a.more = true;
    else if (flag == "--no-partitions")
      a.green_contexts = false;
    else if (flag == "--mode") {
      if (value() != "stream")
        throw BadInput("--mode: plans say their mode; only 'stream' replaces it");
      a.streams = true;
    } else if (flag == "-o")
      a.folder = value();
    else if (flag == "--devices")
      a.devices = number(flag, value(), 2, 64);
    else if (flag == "--passes")
      a.passes = number(flag, value(), 1, 100000);
    else if (flag == "--warm-up")
      a.warm_up = number(flag, value(), 0, 100000);
    else if (flag == "--rounds")
      a.rounds = number(flag, value(), 1, 1000);
    else if (flag == "--timelines")
      a.timelines = number(flag, value(), 0, 100000);
    else if (flag == "--seconds")
      a.seconds = number(flag, value(), 1, 86400);
    else if (flag == "--seed")
      a.seed = number<std::uint64_t>(flag, value(), 0, ~std::uint64_t{0});
    else if (flag.starts_with("-"))
      throw BadInput(std::string(flag) + ": no such flag; see --help");
    else
      a.plans.emplace_back(flag);
  }
  const bool wants_plans = a.verb == Verb::check || a.verb == Verb::replay;
  if (wants_plans && a.plans.empty()) throw BadInput("no plan given; see --help");
  if (!wants_plans && !a.plans.empty()) throw BadInput("'" + a.plans.front() + "': takes no plans");
  if (a.verb != Verb::check && a.folder.empty()) throw BadInput("-o FOLDER is missing");
  return a;
}

ReplayPlan read_plan(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw BadInput(file + ": cannot be read");
  std::ostringstream text;
  text << in.rdbuf();
  return parse_plan(text.str(), file);
}

/// All plans, or the mistakes of all.
std::vector<ReplayPlan> read_plans(const std::vector<std::string>& files) {
  std::vector<ReplayPlan> plans;
  std::string mistakes;
  for (const std::string& file : files) {
    try {
      plans.push_back(read_plan(file));
      for (std::size_t i = 0; i + 1 < plans.size(); ++i)
        if (plans[i].name == plans.back().name)
          throw BadInput(file + ":2: " + files[i] + " has the same name");
    } catch (const BadInput& error) {
      mistakes += (mistakes.empty() ? "" : "\n") + std::string(error.what());
    }
  }
  if (!mistakes.empty()) throw BadInput(mistakes);
  return plans;
}

void summarize(const ReplayPlan& plan) {
  std::size_t transfers = 0;
  std::int64_t bytes = 0;
  for (const Task& task : plan.tasks) {
    transfers += task.transfer ? 1 : 0;
    bytes += task.bytes;
  }
  std::printf(
      "%s: %d devices, %s, %s; %zu ops, %zu transfers of %lld bytes, %zu buffers; %.3f ms without "
      "gaps\n",
      plan.name.c_str(), plan.devices, std::string(to_text(plan.mode)).c_str(),
      std::string(to_text(plan.way)).c_str(), plan.tasks.size() - transfers, transfers,
      static_cast<long long>(bytes), plan.buffers.size(),
      static_cast<double>(span(first_in_first_out(plan, 0, 0))) / 1e6);
}

std::vector<ReplayPlan> plans_to_replay(const Arguments& a) {
  std::vector<ReplayPlan> plans = read_plans(a.plans);
  for (ReplayPlan& plan : plans)
    if (a.streams && plan.mode == SubmitMode::graph) plan.mode = SubmitMode::stream;
  return plans;
}

int run(const Arguments& a) {
  switch (a.verb) {
    case Verb::check:
      for (const ReplayPlan& plan : read_plans(a.plans)) summarize(plan);
      return 0;
    case Verb::replay:
      return replay_plans(plans_to_replay(a), {.folder = a.folder,
                                               .devices = a.devices,
                                               .warm_up = a.warm_up,
                                               .repeats = a.passes,
                                               .rounds = a.rounds,
                                               .timelines = a.timelines,
                                               .seconds = a.seconds > 0 ? a.seconds : 240,
                                               .seed = a.seed,
                                               .green_contexts = a.green_contexts,
                                               .more = a.more});
    case Verb::measure:
      return measure({.folder = a.folder,
                      .devices = a.devices,
                      .rounds = a.passes,
                      .seconds = a.seconds > 0 ? a.seconds : 150,
                      .seed = a.seed,
                      .green_contexts = a.green_contexts,
                      .cublas = a.cublas,
                      .more = a.more});
    case Verb::settle:
      return settle(a.folder, a.devices);
  }
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const std::span<char*> words(argv + 1, argv + argc);
  for (const std::string_view word : words) {
    if (word != "--help" && word != "-h") continue;
    std::fputs(usage, stdout);
    return 0;
  }
  try {
    const Arguments arguments = parse(words);
    if (arguments.verb == Verb::check) return run(arguments);
    if (arguments.verb == Verb::replay) read_plans(arguments.plans);  // mistakes before a folder
    make_folder(arguments.folder);
    try {
      return run(arguments);
    } catch (const std::exception& error) {
      Failures(arguments.folder).add("process", error.what());
      throw;
    }
  } catch (const GpuLost& error) {
    std::fprintf(stderr, "the GPU is lost: %s\n", error.what());
    return 3;
  } catch (const Skip& reason) {
    std::fprintf(stderr, "skipped: %s\n", reason.what());
    return 77;
  } catch (const BadInput& mistakes) {
    std::fprintf(stderr, "%s\n", mistakes.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
