#include "validate/run_files.h"

#include <filesystem>

#include "sim/error.h"
#include "traces/format/compressed_file.h"

namespace baechi::validate {
namespace {

constexpr std::string_view steps_header =
    "plan,replay,round,mode,step_ns,submit_ns,verdict,peak_bytes";
constexpr std::string_view timeline_header = "plan,replay,round,mode,task,start_ns,end_ns";
constexpr std::string_view prediction_header =
    "baechi_prediction_1,name,hash,verdict,step_ns,peak_bytes";
constexpr std::string_view tasks_header = "task,start_ns,end_ns";
constexpr int most_tasks = 10'000'000;

std::string join_bytes(const std::vector<Bytes>& sizes) {
  std::string out;
  for (const Bytes& b : sizes) out += fmt::format("{}{}", out.empty() ? "" : ";", b.count);
  return out;
}

void throw_if_any(const Lines& lines) {
  if (lines.any_mistake()) throw InputError(lines.mistakes());
}

/// A file of comma-separated values, its first line as it must be.
class Table {
 public:
  Table(std::string_view text, const std::string& path, std::string_view header)
      : lines(text, path) {
    if (!lines.next() || lines.line() != header) {
      lines.mistake(1, fmt::format("the first line is not '{}'", header));
      throw_if_any(lines);
    }
    width_ = static_cast<std::size_t>(std::ranges::count(header, ',')) + 1;
  }

  /// The next line with the header's number of fields; false at the end.
  bool next() {
    while (!lines.too_many() && lines.next()) {
      fields = split(lines.line(), ',');
      if (fields.size() == width_) return true;
      lines.mistake(1, fmt::format("{} values, not {}", fields.size(), width_));
    }
    return false;
  }

  std::string text(std::size_t i) const { return std::string(fields[i].text); }
  std::int64_t whole(std::size_t i, std::string_view what, std::int64_t most = most_number) {
    return lines.whole(fields[i], what, 0, most).value_or(0);
  }
  std::optional<Duration> time(std::size_t i, std::string_view what) {
    if (fields[i].text.empty()) return std::nullopt;
    return Duration{whole(i, what)};
  }
  double number(std::size_t i, std::string_view what) {
    const auto value = parse_number<double>(fields[i].text);
    // Beyond 2^50 there are no times; what is not a number fails the comparison.
    if (value && *value > -1e15 && *value < 1e15) return *value;
    lines.mistake(fields[i].column,
                  fmt::format("{} '{}' is not a number", what, fields[i].text.substr(0, 40)));
    return 0.0;
  }
  Verdict verdict(std::size_t i) {
    if (const auto verdict = parse<Verdict>(fields[i].text)) return *verdict;
    lines.mistake(fields[i].column, fmt::format("'{}' is none of {}", fields[i].text.substr(0, 40),
                                                fmt::join(all_words<Verdict>(), ", ")));
    return Verdict::failed;
  }
  std::vector<Bytes> bytes(std::size_t i) {
    std::vector<Bytes> sizes;
    if (fields[i].text.empty()) return sizes;
    for (Field part : split(fields[i].text, ';')) {
      part.column += fields[i].column - 1;
      sizes.push_back({lines.whole(part, "size").value_or(0)});
    }
    return sizes;
  }

  Lines lines;
  std::vector<Field> fields;

 private:
  std::size_t width_ = 0;
};

std::uint64_t parse_hash(Table& table, std::size_t i) {
  std::uint64_t hash = 0;
  const std::string_view text = table.fields[i].text;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), hash, 16);
  if (ec != std::errc{} || end != text.data() + text.size() || text.size() != 16)
    table.lines.mistake(table.fields[i].column, "a hash is 16 digits 0-9a-f");
  return hash;
}

class MachineReader {
 public:
  MachineReader(std::string_view text, const std::string& path) : lines_(text, path) {}

  Machine read() {
    if (!lines_.next() || lines_.line() != "baechi-machine 1") {
      lines_.mistake(1, "the first line is not 'baechi-machine 1'");
      throw_if_any(lines_);
    }
    while (!lines_.too_many() && lines_.next()) {
      fields_ = split(lines_.line(), ' ');
      if (!fields_.empty()) read_line(std::string(fields_[0].text));
    }
    for (const std::string& key : missing_)
      lines_.mistake(1, fmt::format("no line says '{}'", key));
    throw_if_any(lines_);
    return std::move(machine_);
  }

 private:
  void read_line(const std::string& key) {
    std::erase(missing_, key);
    const std::string value(fields_.size() < 2 ? "" : lines_.line().substr(fields_[1].column - 1));
    const std::pair<std::string_view, std::string*> texts[] = {
        {"gpu", &machine_.gpu},   {"driver", &machine_.driver},
        {"cuda", &machine_.cuda}, {"harness", &machine_.harness},
        {"date", &machine_.date}, {"disjoint", &machine_.disjoint}};
    for (const auto& [name, text] : texts) {
      if (key != name) continue;
      *text = value;
      return;
    }
    if (key == "sms") {
      machine_.sms = whole(1);
    } else if (key == "timer_tick_ns") {
      machine_.timer_tick_ns = number(1);
    } else if (key == "clock_mhz") {
      machine_.clock_mhz[0] = number(1);
      machine_.clock_mhz[1] = number(2);
    } else if (key == "partition") {
      if (whole(1) != static_cast<int>(machine_.partitions.size()))
        lines_.mistake(1, fmt::format("the next partition is {}", machine_.partitions.size()));
      machine_.partitions.push_back({whole(2), whole(3)});
    } else {
      machine_.more.emplace_back(key, value);
    }
  }

  int whole(std::size_t i) {
    if (i < fields_.size())
      return static_cast<int>(lines_.whole(fields_[i], fields_[0].text, 0, 1 << 20).value_or(0));
    lines_.mistake(1, fmt::format("too few values of '{}'", fields_[0].text));
    return 0;
  }

  double number(std::size_t i) {
    const auto n = i < fields_.size() ? parse_number<double>(fields_[i].text) : std::nullopt;
    if (n && *n >= 0.0 && *n < 1e15) return *n;
    lines_.mistake(1, fmt::format("'{}' needs numbers", fields_[0].text));
    return 0.0;
  }

  Lines lines_;
  std::vector<Field> fields_;
  Machine machine_;
  std::vector<std::string> missing_{"gpu",       "driver",        "cuda",    "sms", "disjoint",
                                    "clock_mhz", "timer_tick_ns", "harness", "date"};
};

namespace fs = std::filesystem;

/// The file, or the compressed one of its name; nothing if there is neither.
std::optional<std::string> read_any(const std::string& path) {
  for (const char* ending : {"", ".gz", ".zst"})
    if (fs::is_regular_file(path + ending)) return read_file(path + ending);
  return std::nullopt;
}

/// `name` without the ending of a plan, compressed or not; nothing if it has none.
std::optional<std::string> stem_of_plan(std::string name) {
  for (const std::string_view ending : {".gz", ".zst"})
    if (name.ends_with(ending)) name.resize(name.size() - ending.size());
  constexpr std::string_view plan = ".plan";
  if (!name.ends_with(plan)) return std::nullopt;
  return name.substr(0, name.size() - plan.size());
}

/// File names of the plans in `folder`, by stem.
std::map<std::string, std::string> plan_files(const std::string& folder) {
  std::map<std::string, std::string> files;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(folder, ec)) {
    const auto stem = stem_of_plan(entry.path().filename().string());
    if (stem && entry.is_regular_file()) files[*stem] = entry.path().string();
  }
  if (ec) throw InputError(fmt::format("{}: no such folder of plans", folder));
  return files;
}

void check_names(const std::vector<ReplayPlan>& plans, const std::string& folder) {
  std::set<std::string> names;
  Mistakes mistakes;
  for (const ReplayPlan& plan : plans)
    if (!names.insert(plan.name).second)
      mistakes.add(fmt::format("{}: two plans are called '{}'", folder, plan.name));
  mistakes.throw_if_any();
}

using PlansByName = std::map<std::string, const ReplayPlan*>;

void read_predictions(const std::string& folder, const PlansByName& plans, ValidationRun& run,
                      Mistakes& mistakes) {
  for (const auto& [stem, file] : plan_files(folder)) {
    const std::string name = fmt::format("{}/{}.prediction.csv", folder, stem);
    const auto text = read_any(name);
    if (!text) continue;
    Prediction p = parse_prediction(*text, name);
    const auto plan = plans.find(p.name);
    if (plan == plans.end() || plan->second->hash != p.hash ||
        plan->second->tasks.size() != p.replay.start.size())
      mistakes.add(fmt::format("{}: it is not of the plan beside it", name));
    run.predictions.emplace(p.name, std::move(p));
  }
}

void check_replays(const ValidationRun& run, const PlansByName& plans, Mistakes& mistakes) {
  std::set<std::string> unknown;
  for (const StepRow& row : run.steps)
    if (!plans.contains(row.plan)) unknown.insert("steps.csv: no plan '" + row.plan + "'");
  for (const TaskTimes& replay : run.timeline) {
    const auto plan = plans.find(replay.plan);
    if (plan == plans.end()) {
      unknown.insert("timeline.csv: no plan '" + replay.plan + "'");
      continue;
    }
    for (const auto& row : replay.rows)
      if (static_cast<std::size_t>(row.task) >= plan->second->tasks.size())
        unknown.insert(fmt::format("timeline.csv: no task {} in plan '{}'", row.task, replay.plan));
  }
  for (const std::string& what : unknown) mistakes.add(run.path + "/" + what);
}

}  // namespace

Machine parse_machine(std::string_view text, const std::string& path) {
  return MachineReader(text, path).read();
}

std::vector<Measurement> parse_measurements(std::string_view text, const std::string& path) {
  Table table(text, path, Measurement::header());
  std::vector<Measurement> rows;
  while (table.next()) {
    const auto count = [&](std::size_t i, std::string_view what) {
      return table.fields[i].text.empty() ? 0 : table.whole(i, what);
    };
    rows.push_back({.what = table.text(0),
                    .mode = table.text(1),
                    .way = table.text(2),
                    .subject = table.text(3),
                    .args = table.text(4),
                    .against = table.text(5),
                    .count = count(6, "count"),
                    .round = count(7, "round"),
                    .value = table.number(8, "value")});
  }
  throw_if_any(table.lines);
  return rows;
}

std::vector<StepRow> parse_steps(std::string_view text, const std::string& path) {
  Table table(text, path, steps_header);
  std::vector<StepRow> rows;
  while (table.next()) {
    StepRow row{.plan = table.text(0),
                .replay = table.whole(1, "replay"),
                .round = table.whole(2, "round"),
                .mode = table.text(3),
                .step = table.time(4, "step"),
                .submit = table.time(5, "submission"),
                .verdict = table.verdict(6),
                .peaks = table.bytes(7)};
    if (row.verdict == Verdict::ok && !row.step)
      table.lines.mistake(table.fields[4].column, "a replay that is ok has a step time");
    rows.push_back(std::move(row));
  }
  throw_if_any(table.lines);
  return rows;
}

std::vector<TaskTimes> parse_timeline(std::string_view text, const std::string& path) {
  Table table(text, path, timeline_header);
  std::vector<TaskTimes> replays;
  while (table.next()) {
    const std::int64_t replay = table.whole(1, "replay"), round = table.whole(2, "round");
    const bool same = !replays.empty() && replays.back().plan == table.fields[0].text &&
                      replays.back().replay == replay && replays.back().round == round &&
                      replays.back().mode == table.fields[3].text;
    if (!same)
      replays.push_back({.plan = table.text(0),
                         .mode = table.text(3),
                         .replay = replay,
                         .round = round,
                         .rows = {}});
    TaskTimes::Row row{static_cast<int>(table.whole(4, "task", most_tasks)),
                       Duration{table.whole(5, "start")}, Duration{table.whole(6, "end")}};
    if (row.end < row.start)
      table.lines.mistake(table.fields[6].column, "it ends before it starts");
    replays.back().rows.push_back(row);
  }
  throw_if_any(table.lines);
  return replays;
}

std::string prediction_csv(const Prediction& p) {
  std::string out =
      fmt::format("{}\n,{},{:016x},{},{},{}\n{}\n", prediction_header, p.name, p.hash,
                  to_text(p.verdict), p.replay.step().count(), join_bytes(p.peaks), tasks_header);
  for (std::size_t i = 0; i < p.replay.start.size(); ++i)
    out += fmt::format("{},{},{}\n", i, p.replay.start[i].count(), p.replay.end[i].count());
  return out;
}

Prediction parse_prediction(std::string_view text, const std::string& path) {
  Prediction p;
  const std::size_t first_task = text.find(tasks_header);
  Table head(text.substr(0, first_task), path, prediction_header);
  if (!head.next()) {
    head.lines.mistake(1, "the text ends before the prediction");
    throw_if_any(head.lines);
  }
  p.name = head.text(1);
  p.hash = parse_hash(head, 2);
  p.verdict = head.verdict(3);
  p.peaks = head.bytes(5);
  const auto step = head.time(4, "step");
  throw_if_any(head.lines);
  if (first_task == std::string_view::npos)
    throw InputError(fmt::format("{}: no line is '{}'", path, tasks_header));
  Table tasks(text.substr(first_task), path, tasks_header);  // lines are counted from there
  while (tasks.next()) {
    const auto id = static_cast<std::int64_t>(p.replay.start.size());
    tasks.lines.whole(tasks.fields[0], "the next task's id", id, id);
    p.replay.start.emplace_back(tasks.whole(1, "start"));
    p.replay.end.emplace_back(tasks.whole(2, "end"));
  }
  throw_if_any(tasks.lines);
  if (step != p.replay.step())
    throw InputError(fmt::format("{}: the step time is not the last task's end", path));
  return p;
}

ReplayPlan read_plan(const std::string& path) {
  try {
    return parse_plan(read_file(path), path);
  } catch (const BadInput& mistakes) {
    throw InputError(mistakes.what());
  }
}

std::vector<ReplayPlan> read_plans(const std::string& folder) {
  std::vector<ReplayPlan> plans;
  for (const auto& [stem, file] : plan_files(folder)) plans.push_back(read_plan(file));
  check_names(plans, folder);
  return plans;
}

ValidationRun read_run(const std::string& path) {
  if (!fs::is_directory(path)) throw InputError(fmt::format("{}: no such folder", path));
  ValidationRun run;
  run.path = path;
  Mistakes mistakes;
  PlansByName by_name;
  if (fs::is_directory(path + "/plans")) {
    run.plans = read_plans(path + "/plans");
    for (const ReplayPlan& plan : run.plans) by_name[plan.name] = &plan;
    read_predictions(path + "/plans", by_name, run, mistakes);
  }
  if (const auto text = read_any(path + "/machine.txt"))
    run.machine = parse_machine(*text, path + "/machine.txt");
  if (const auto text = read_any(path + "/measurements.csv"))
    run.measurements = parse_measurements(*text, path + "/measurements.csv");
  if (const auto text = read_any(path + "/canaries.csv")) {
    const auto canaries = parse_measurements(*text, path + "/canaries.csv");
    run.measurements.insert(run.measurements.end(), canaries.begin(), canaries.end());
  }
  if (const auto text = read_any(path + "/steps.csv"))
    run.steps = parse_steps(*text, path + "/steps.csv");
  if (const auto text = read_any(path + "/timeline.csv"))
    run.timeline = parse_timeline(*text, path + "/timeline.csv");
  check_replays(run, by_name, mistakes);
  mistakes.throw_if_any();
  return run;
}

}  // namespace baechi::validate
