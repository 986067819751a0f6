#include "scenarios/query/query.h"

#include <oneapi/tbb/parallel_for.h>

#include <mutex>

#include "scenarios/query/kinds.h"
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
  Json question = Json::parse(line);
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

}  // namespace baechi::query
