#include "validate/plan/plan.h"

#include <algorithm>
#include <cstdio>

namespace baechi::validate {

std::vector<Field> split(std::string_view line, char separator) {
  std::vector<Field> fields;
  std::size_t begin = 0;
  while (begin <= line.size()) {
    const std::size_t end = std::min(line.find(separator, begin), line.size());
    if (separator != ' ' || end > begin)
      fields.push_back({line.substr(begin, end - begin), begin + 1});
    begin = end + 1;
  }
  return fields;
}

bool Lines::next() {
  if (rest_.empty()) return false;
  const std::size_t end = rest_.find('\n');
  line_ = rest_.substr(0, end);
  rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
  ++number_;
  return true;
}

std::string Lines::where(std::size_t column) const {
  return joined(path_, ':', std::max<std::size_t>(number_, 1), ':', column, ": ");
}

void Lines::mistake(std::size_t column, std::string_view what) {
  if (mistakes_ < most_mistakes) add(where(column) + std::string(what));
  if (++mistakes_ == most_mistakes) add(joined(path_, ": there may be more mistakes"));
}

void Lines::add(const std::string& message) {
  messages_ += messages_.empty() ? message : "\n" + message;
}

void Lines::finish() const {
  if (any_mistake()) throw BadInput(messages_);
}

std::optional<std::int64_t> Lines::whole(const Field& field, std::string_view what,
                                         std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  const char* const end = field.text.data() + field.text.size();
  const auto [read, error] = std::from_chars(field.text.data(), end, value);
  if (error == std::errc{} && read == end && value >= least && value <= most) return value;
  const std::string_view found = field.text.substr(0, 40);
  mistake(field.column, least == most ? joined(what, " is ", least, ", not '", found, "'")
                                      : joined(what, " '", found, "' is not a whole number in [",
                                               least, ", ", most, "]"));
  return std::nullopt;
}

namespace {

constexpr std::string_view name_letters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:/@=+-";
constexpr std::size_t most_name = 200;
constexpr int most_devices_of_plan = 64;
constexpr int most_queues = 8;
constexpr std::int64_t largest_product = 16384;
constexpr std::size_t most_tasks = 10'000'000;

std::string end_name(int device) { return device == Task::host ? "host" : std::to_string(device); }

std::string hash_text(std::uint64_t hash) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

void append_ids(std::string& out, std::string_view word, const std::vector<int>& ids) {
  if (ids.empty()) return;
  out += joined(' ', word);
  for (const int id : ids) out += joined(' ', id);
}

/// Reads a plan line by line; what is wrong with a line is reported, and the line is left out.
class PlanReader {
 public:
  PlanReader(std::string_view text, std::string_view path) : lines_(text, path) {}

  ReplayPlan read() {
    read_header();
    if (lines_.any_mistake()) lines_.finish();  // what follows would make no sense
    while (!ended_ && !lines_.too_many() && next()) read_line();
    if (!ended_ && !lines_.too_many())
      lines_.mistake(1, "the text ends without 'end TASKS BUFFERS'");
    if (ended_ && next()) lines_.mistake(1, "something stands behind 'end'");
    check_until();
    lines_.finish();
    return std::move(plan_);
  }

 private:
  bool next() {
    while (lines_.next()) {
      if (lines_.line().starts_with('#')) continue;
      fields_ = split(lines_.line(), ' ');
      if (!fields_.empty()) return true;
    }
    return false;
  }

  bool expect(std::string_view keyword, std::size_t count) {
    if (!next()) {
      lines_.mistake(1, joined("the text ends before '", keyword, "'"));
      return false;
    }
    if (fields_[0].text != keyword || fields_.size() != count + 1) {
      lines_.mistake(fields_[0].column, joined("'", keyword, "' with ", count, " value",
                                               count == 1 ? "" : "s", " should stand here"));
      return false;
    }
    return true;
  }

  template <std::size_t N>
  std::size_t one_of(const Field& field, const std::array<std::string_view, N>& names) {
    const auto it = std::ranges::find(names, field.text);
    if (it != names.end()) return static_cast<std::size_t>(it - names.begin());
    std::string known;
    for (const std::string_view name : names) known += joined(known.empty() ? "" : ", ", name);
    lines_.mistake(field.column, joined("'", field.text.substr(0, 40), "' is none of ", known));
    return 0;
  }
  template <NamedEnum E>
  E one_of(const Field& field) {
    return all<E>()[one_of(field, all_words<E>())];
  }

  int number(const Field& field, std::string_view what, std::int64_t least, std::int64_t most) {
    return static_cast<int>(lines_.whole(field, what, least, most).value_or(least));
  }

  void read_header() {
    if (!expect("baechi-plan", 1)) return;
    if (fields_[1].text == "2")
      return lines_.mistake(fields_[1].column,
                            "plans of version 2 have several lanes, which no harness replays: "
                            "this program reads version 1");
    if (fields_[1].text != "1")
      return lines_.mistake(fields_[1].column, "the version is not 1, which this program reads");
    if (expect("name", 1)) read_name(fields_[1]);
    if (expect("hash", 1)) read_hash(fields_[1]);
    if (expect("devices", 1))
      plan_.devices = number(fields_[1], "count of devices", 1, most_devices_of_plan);
    if (expect("queues", 1)) plan_.queues = number(fields_[1], "count of queues", 1, most_queues);
    if (expect("mode", 1)) plan_.mode = one_of<SubmitMode>(fields_[1]);
    if (expect("way", 1)) plan_.way = one_of<Way>(fields_[1]);
    static constexpr std::array<std::string_view, 1> memory{"none"};
    if (expect("memory", 1)) one_of(fields_[1], memory);
    if (lines_.any_mistake()) return;
    read_sizes("budget", plan_.budget);
    read_sizes("resident", plan_.resident);
  }

  void read_name(const Field& field) {
    if (field.text.size() > most_name ||
        field.text.find_first_not_of(name_letters) != std::string_view::npos)
      lines_.mistake(field.column,
                     joined("a name has up to ", most_name, " letters, digits and _.:/@=+-"));
    plan_.name = field.text;
  }

  void read_hash(const Field& field) {
    const std::string text(field.text);
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), plan_.hash, 16);
    if (ec != std::errc{} || text.size() != 16 || end != text.data() + text.size() ||
        hash_text(plan_.hash) != text)
      lines_.mistake(field.column, "a hash is 16 digits 0-9a-f");
  }

  void read_sizes(std::string_view keyword, std::vector<std::int64_t>& sizes) {
    for (int d = 0; d < plan_.devices; ++d) {
      if (!expect(keyword, 2)) return;
      number(fields_[1], "the next device", d, d);
      sizes.push_back(lines_.whole(fields_[2], "size").value_or(0));
    }
  }

  void read_line() {
    const std::string_view keyword = fields_[0].text;
    if (keyword == "op") return read_op();
    if (keyword == "transfer") return read_transfer();
    if (keyword == "buffer") return read_buffer();
    if (keyword == "end") return read_end();
    lines_.mistake(fields_[0].column,
                   joined("'", keyword.substr(0, 40), "' is none of op, transfer, buffer, end"));
  }

  bool at_least(std::size_t count, std::string_view shape) {
    if (fields_.size() >= count) return true;
    lines_.mistake(1, joined("too few values: '", shape, "'"));
    return false;
  }

  bool next_task_id() {
    if (plan_.tasks.size() >= most_tasks) {
      lines_.mistake(1, joined("more than ", most_tasks, " tasks"));
      ended_ = true;
      return false;
    }
    const auto id = static_cast<std::int64_t>(plan_.tasks.size());
    lines_.whole(fields_[1], "the next task's id", id, id);
    return true;
  }

  void read_op() {
    if (!at_least(6, "op ID DEVICE NS BODY [after ID...]") || !next_task_id()) return;
    Task task;
    task.device = number(fields_[2], "device", 0, plan_.devices - 1);
    task.length = Nanoseconds{lines_.whole(fields_[3], "time").value_or(0)};
    const std::size_t rest = read_body(task, 4);
    read_ids(rest, "after", static_cast<std::int64_t>(plan_.tasks.size()), task.after);
    plan_.tasks.push_back(std::move(task));
  }

  /// From field `begin` on; returns where the body ends.
  std::size_t read_body(Task& task, std::size_t begin) {
    task.body.kind = one_of<BodyKind>(fields_[begin]);
    if (!parse<BodyKind>(fields_[begin].text)) return fields_.size();
    const std::size_t count = task.body.kind == BodyKind::cublas ? 3 : 1;
    if (!at_least(begin + 1 + count, "cublas M N K")) return fields_.size();
    for (std::size_t i = 0; i < count; ++i) {
      const Field& field = fields_[begin + 1 + i];
      std::int64_t& arg = task.body.args[i];
      const std::int64_t most = task.body.kind == BodyKind::spin || task.body.kind == BodyKind::ew
                                    ? most_number
                                    : largest_product;
      arg = lines_.whole(field, "argument", task.body.kind == BodyKind::spin ? 0 : 1, most)
                .value_or(0);
      if (task.body.kind == BodyKind::spin && arg != task.length.count())
        lines_.mistake(field.column, "a spin's argument is its time once more");
      if (task.body.kind == BodyKind::gemm && arg % 16 != 0)
        lines_.mistake(field.column, "a gemm's size is a multiple of 16");
      if (task.body.kind == BodyKind::ew && arg % 32 != 0)
        lines_.mistake(field.column, "an ew's size is a multiple of 32");
    }
    return begin + 1 + count;
  }

  void read_transfer() {
    if (!at_least(7, "transfer ID FROM TO QUEUE BYTES NS [after ID...]") || !next_task_id()) return;
    Task task{.transfer = true, .body = {}, .after = {}};
    task.device = read_end_of_transfer(fields_[2]);
    task.to = read_end_of_transfer(fields_[3]);
    if ((plan_.way == Way::host) != (task.device == Task::host || task.to == Task::host) ||
        task.device == task.to) {
      lines_.mistake(fields_[2].column, plan_.way == Way::host
                                            ? "one end of a transfer of way host is 'host'"
                                            : "the ends of a transfer are two different devices");
      task.device = task.to = 0;
    }
    task.queue = number(fields_[4], "queue", 0, plan_.queues - 1);
    task.bytes = lines_.whole(fields_[5], "size").value_or(0);
    task.length = Nanoseconds{lines_.whole(fields_[6], "time").value_or(0)};
    read_ids(7, "after", static_cast<std::int64_t>(plan_.tasks.size()), task.after);
    plan_.tasks.push_back(std::move(task));
  }

  int read_end_of_transfer(const Field& field) {
    if (field.text == "host") return Task::host;
    return number(field, "device", 0, plan_.devices - 1);
  }

  /// Reads `word` in field `begin` and the ids behind it, which ascend and are below `limit`.
  void read_ids(std::size_t begin, std::string_view word, std::int64_t limit,
                std::vector<int>& ids) {
    if (begin >= fields_.size()) return;
    if (fields_[begin].text != word || begin + 1 == fields_.size())
      return lines_.mistake(fields_[begin].column, joined("here stands '", word, " ID...'"));
    for (std::size_t i = begin + 1; i < fields_.size(); ++i) {
      const std::int64_t least = ids.empty() ? 0 : ids.back() + 1;
      if (least >= limit)
        return lines_.mistake(fields_[i].column, "ids are of earlier tasks, ascending");
      const auto id = lines_.whole(fields_[i], "id", least, limit - 1);
      if (!id) return;
      ids.push_back(static_cast<int>(*id));
    }
  }

  void read_buffer() {
    if (!at_least(7, "buffer BUFFER DEVICE BYTES TASK until ID...")) return;
    if (plan_.tasks.empty()) return lines_.mistake(1, "a buffer stands after its task");
    const auto id = static_cast<std::int64_t>(plan_.buffers.size());
    lines_.whole(fields_[1], "the next buffer's id", id, id);
    Buffer buffer;
    buffer.device = number(fields_[2], "device", 0, plan_.devices - 1);
    buffer.bytes = lines_.whole(fields_[3], "size").value_or(0);
    buffer.task = number(fields_[4], "task", 0, static_cast<std::int64_t>(plan_.tasks.size()) - 1);
    read_ids(5, "until", most_tasks, buffer.until);
    if (!buffer.until.empty() && buffer.until.front() < buffer.task)
      lines_.mistake(fields_[6].column, "it would be given back before it is taken");
    last_until_ = buffer.until.empty() ? last_until_ : std::max(last_until_, buffer.until.back());
    plan_.buffers.push_back(std::move(buffer));
  }

  void check_until() {
    if (last_until_ >= static_cast<int>(plan_.tasks.size()))
      lines_.mistake(1, joined("a buffer is kept until task ", last_until_, ", of ",
                               plan_.tasks.size(), " tasks"));
  }

  void read_end() {
    ended_ = true;
    if (!at_least(3, "end TASKS BUFFERS")) return;
    const auto count = [&](const Field& field, std::string_view what, std::size_t n) {
      lines_.whole(field, what, static_cast<std::int64_t>(n), static_cast<std::int64_t>(n));
    };
    count(fields_[1], "the count of tasks", plan_.tasks.size());
    count(fields_[2], "the count of buffers", plan_.buffers.size());
    if (fields_.size() > 3) lines_.mistake(fields_[3].column, "'end TASKS BUFFERS' has two values");
  }

  Lines lines_;
  std::vector<Field> fields_;
  ReplayPlan plan_;
  int last_until_ = -1;
  bool ended_ = false;
};

}  // namespace

double Body::amount() const {
  const auto a = static_cast<double>(args[0]), b = static_cast<double>(args[1]),
             c = static_cast<double>(args[2]);
  if (kind == BodyKind::gemm) return 2.0 * a * a * a;
  return kind == BodyKind::cublas ? 2.0 * a * b * c : a;
}

std::string args_text(const Body& body) {
  if (body.kind == BodyKind::cublas)
    return joined(body.args[0], ' ', body.args[1], ' ', body.args[2]);
  return joined(body.args[0]);
}

std::string to_text(const Body& body) { return joined(to_text(body.kind), ' ', args_text(body)); }

std::string plan_text(const ReplayPlan& plan) {
  std::string out = joined("baechi-plan 1\nname ", plan.name, "\nhash ", hash_text(plan.hash),
                           "\ndevices ", plan.devices, "\nqueues ", plan.queues, "\nmode ",
                           to_text(plan.mode), "\nway ", to_text(plan.way), "\nmemory none\n");
  for (std::size_t d = 0; d < plan.budget.size(); ++d)
    out += joined("budget ", d, ' ', plan.budget[d], '\n');
  for (std::size_t d = 0; d < plan.resident.size(); ++d)
    out += joined("resident ", d, ' ', plan.resident[d], '\n');
  std::size_t b = 0;
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    const Task& t = plan.tasks[i];
    if (t.transfer)
      out += joined("transfer ", i, ' ', end_name(t.device), ' ', end_name(t.to), ' ', t.queue, ' ',
                    t.bytes, ' ', t.length.count());
    else
      out += joined("op ", i, ' ', t.device, ' ', t.length.count(), ' ', to_text(t.body));
    append_ids(out, "after", t.after);
    out += '\n';
    // Buffers stand as early as they can without changing their order.
    for (; b < plan.buffers.size() && plan.buffers[b].task <= static_cast<int>(i); ++b) {
      const Buffer& buffer = plan.buffers[b];
      out += joined("buffer ", b, ' ', buffer.device, ' ', buffer.bytes, ' ', buffer.task);
      append_ids(out, "until", buffer.until);
      out += '\n';
    }
  }
  return out + joined("end ", plan.tasks.size(), ' ', plan.buffers.size(), '\n');
}

ReplayPlan parse_plan(std::string_view text, const std::string& path) {
  return PlanReader(text, path).read();
}

}  // namespace baechi::validate
