#include "scenarios/query/query.h"

#include <oneapi/tbb/parallel_for.h>

#include <mutex>

#include "scenarios/read/sections.h"
#include "scenarios/run/build.h"
#include "traces/format/compressed_file.h"

namespace baechi::query {
namespace {

Options::Value value_of(const Json& json) {
  Options::Value value;
  if (json.is_object())
    for (const auto& [key, child] : json.items()) value.children.emplace_back(key, value_of(child));
  else if (json.is_array())
    for (const Json& child : json) value.children.emplace_back("", value_of(child));
  else if (json.is_string())
    value.text = json.get<std::string>();
  else if (!json.is_null())
    value.text = json.dump();
  return value;
}

/// Takes the list called `key` out of the question.
Json take_rows(Json& question, const std::string& key) {
  Json rows = question.value(key, Json());
  if (!rows.is_array()) throw InputError(fmt::format("{}: not a list of lists", key));
  question.erase(key);
  return rows;
}

Options rest_of(const Json& question, const std::string& owner) {
  Options options(owner);
  for (const auto& [key, value] : question.items()) options.set(key, value_of(value));
  return options;
}

Json answer_text(Options& question) {
  const std::string file = question.path("file", "a text file, packed or not");
  question.finish();
  return {{"text", read_file(file)}};
}

struct QuestionKind {
  std::string_view name;
  std::string_view rows;  ///< the key of its list; "" for none
  Json (*answer)(Options&);
  Json (*answer_rows)(Options&, const Json&);
};
constexpr QuestionKind question_kinds[] = {
    {"training", "", answer_training, nullptr},
    {"step", "", answer_step, nullptr},
    {"kernels", "kernels", nullptr, answer_kernels},
    {"collectives", "collectives", nullptr, answer_collectives},
    {"text", "", answer_text, nullptr}};

Json answer_one(const std::string& line) {
  // What is nested deeper would overflow the stack.
  const auto shallow = [](int depth, Json::parse_event_t, Json&) {
    if (depth > 64) throw InputError("nested too deeply");
    return true;
  };
  Json question = Json::parse(line, shallow);
  if (!question.is_object()) throw InputError("not a JSON object");
  const QuestionKind& kind = find_entry(question_kinds, "ask", question.value("ask", ""));
  question.erase("ask");
  if (kind.rows.empty()) {
    Options options = rest_of(question, std::string(kind.name));
    return kind.answer(options);
  }
  const Json rows = take_rows(question, std::string(kind.rows));
  Options options = rest_of(question, std::string(kind.name));
  return kind.answer_rows(options, rows);
}

std::string answer_line(const std::string& question) {
  Json answer;
  try {
    answer = answer_one(question);
  } catch (const InputError& e) {
    answer = {{"error", e.what()}};
  } catch (const Json::exception& e) {
    answer = {{"error", fmt::format("not a question as cli/json.md has them: {}", e.what())}};
  }
  return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <NamedEnum E>
E word_of(const Json& json, std::string_view what) {
  const auto word = json.get<std::string>();
  if (const auto value = parse<E>(word)) return *value;
  throw InputError(
      fmt::format("{} '{}' is not one of {}", what, word, fmt::join(all_words<E>(), ", ")));
}

OpWork work_of(const Json& row) {
  OpWork work{.flops = row.at(1).get<std::int64_t>(),
              .traffic = Bytes{row.at(2).get<std::int64_t>()},
              .precision = word_of<Precision>(row.at(3), "dtype")};
  const auto whole = [&](std::size_t i) { return row.at(i).get<std::int64_t>(); };
  if (row.size() > 4)
    work.matrix = {word_of<MatrixKind>(row.at(4), "kind of matrix operation"), whole(5), whole(6),
                   whole(7), whole(8)};
  if (work.flops < 0 || work.traffic < Bytes{}) throw InputError("work below 0");
  return work;
}

}  // namespace

void answer_all(std::span<const std::string> questions,
                const std::function<void(const std::string&)>& sink) {
  std::map<std::string_view, std::size_t> places;
  std::vector<std::string_view> different;
  for (const std::string& question : questions)
    if (places.try_emplace(question, different.size()).second) different.push_back(question);
  std::vector<std::optional<std::string>> answers(different.size());
  std::mutex mutex;  // of answers and next_line
  std::size_t next_line = 0;
  std::atomic<std::size_t> next = 0;
  // Threads take the questions in their order, so that the first answers come first.
  tbb::parallel_for(std::size_t{0}, different.size(), [&](std::size_t) {
    const std::size_t i = next++;
    std::string answer = answer_line(std::string(different[i]));
    const std::scoped_lock lock(mutex);
    answers[i] = std::move(answer);
    for (; next_line < questions.size(); ++next_line) {
      const auto& known = answers[places.at(questions[next_line])];
      if (!known) break;
      sink(*known);
    }
  });
}

Json answer_kernels(Options& question, const Json& kernels) {
  const Options::Value* device = question.raw("device", "a device type, or its numbers");
  question.finish();
  const auto gpu = device_of(device != nullptr ? *device : Options::Value{}, "device");
  Json times = Json::array();
  for (const Json& row : kernels) {
    const OpWork work = work_of(row);
    if (work.flops > 0 && !(gpu->at(work.precision).peak > FlopRate{}))
      throw InputError(fmt::format("{} has no peak for {}", gpu->name, to_text(work.precision)));
    times.push_back(to_us(kernel_time(work, *gpu, row.at(0).get<std::string>())));
  }
  return {{"times_us", std::move(times)}};
}

Json answer_collectives(Options& question, const Json& collectives) {
  const Options::Value* section = question.raw("cluster", "a scenario's section `cluster`");
  question.finish();
  Mistakes mistakes;
  const ClusterChoice choice = read_cluster(section != nullptr ? *section : Options::Value{}, "",
                                            built_in_devices(), mistakes);
  mistakes.throw_if_any();
  const Cluster cluster = make_cluster(choice);
  Json times = Json::array();
  for (const Json& row : collectives) {
    const auto ranks = row.at(2).get<std::uint32_t>();
    std::vector<DeviceId> devices;
    for (const DeviceId d : cluster.devices())
      if (index(d) < ranks) devices.push_back(d);
    const Collective collective{.kind = word_of<CollectiveKind>(row.at(0), "collective"),
                                .bytes = Bytes{row.at(1).get<std::int64_t>()},
                                .ranks = ranks,
                                .members = static_cast<std::uint32_t>(devices.size())};
    times.push_back(to_us(cluster.collectives().time(collective, devices, cluster)));
  }
  return {{"times_us", std::move(times)}};
}

}  // namespace baechi::query
