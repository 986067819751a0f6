#include "validate/cuda/plan.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>

namespace replay {

namespace {

constexpr std::int64_t largest = std::int64_t{1} << 50;
constexpr std::size_t most_mistakes = 20;
constexpr std::int64_t most_tasks = 10'000'000;

/// At blanks, of which several count as one.
std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (line.empty()) return fields;
    fields.push_back(line.substr(0, line.find(' ')));
    line.remove_prefix(fields.back().size());
  }
}

std::string quoted(std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, 60)) shown += c < ' ' || c > '~' ? '?' : c;
  return "'" + shown + (text.size() > 60 ? "...'" : "'");
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 200 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_.:/@=+-").find(c) != std::string_view::npos;
  });
}

bool is_hash(std::string_view text) {
  return text.size() == 16 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

/// The fields of one line, taken one after the other. Throws `Wrong` at the first that does not
/// fit.
class Fields {
 public:
  struct Wrong {
    std::string what;
  };

  explicit Fields(std::string_view line) : line_(line), fields_(split(line)) {}

  bool empty() const { return next_ == fields_.size(); }

  /// Of the field that was taken last; behind the line's end if one was wanted there.
  std::size_t column() const {
    if (fields_.empty() || wanted_more_) return line_.size() + 1;
    return static_cast<std::size_t>(fields_[next_ == 0 ? 0 : next_ - 1].data() - line_.data()) + 1;
  }

  std::string_view word(const char* what) {
    wanted_more_ = empty();
    if (empty()) throw Wrong{std::string("the line ends where ") + what + " should stand"};
    return fields_[next_++];
  }

  std::int64_t number(const char* what, std::int64_t low, std::int64_t high) {
    const std::string_view text = word(what);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < low || value > high) {
      const std::string to = high == largest ? "2^50" : std::to_string(high);
      throw Wrong{quoted(text) + " is no " + what + ": a number, " + std::to_string(low) + " to " +
                  to};
    }
    return value;
  }

  int index(const char* what, std::int64_t size) {
    if (size == 0) throw Wrong{std::string("there is no ") + what + " yet"};
    return static_cast<int>(number(what, 0, size - 1));
  }

  template <std::size_t N>
  std::size_t one_of(const char* what, const std::string_view (&names)[N]) {
    const std::string_view text = word(what);
    const auto* const found = std::ranges::find(names, text);
    if (found != std::end(names)) return static_cast<std::size_t>(found - std::begin(names));
    std::string accepted;
    for (const std::string_view name : names) accepted += " " + std::string(name);
    throw Wrong{quoted(text) + " is no " + what + "; there are:" + accepted};
  }

  void expect(std::string_view keyword) {
    const std::string wanted = "'" + std::string(keyword) + "'";
    if (const std::string_view found = word(wanted.c_str()); found != keyword)
      throw Wrong{wanted + " should stand where " + quoted(found) + " does"};
  }

  void end() {
    if (!empty()) throw Wrong{quoted(fields_[next_++]) + " is one field too many"};
  }

 private:
  std::string_view line_;
  std::vector<std::string_view> fields_;
  std::size_t next_ = 0;
  bool wanted_more_ = false;
};

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  Plan read(std::istream& in) {
    for (std::string line; std::getline(in, line);) {
      ++line_;
      Fields fields(line);
      if (fields.empty() || line.front() == '#') continue;
      try {
        read_line(fields);
      } catch (const Fields::Wrong& wrong) {
        add(line_, fields.column(), wrong.what);
        if (!in_body_) break;  // what follows an unreadable header means nothing
      }
      if (mistakes_ >= most_mistakes) break;
    }
    if (mistakes_ == 0 || (in_body_ && mistakes_ < most_mistakes)) check_whole();
    if (mistakes_ != 0) throw BadInput(text_);
    return std::move(plan_);
  }

 private:
  void add(std::int64_t line, std::size_t column, const std::string& what) {
    if (++mistakes_ > most_mistakes) return;
    text_ += (text_.empty() ? "" : "\n") + file_ + ":" + std::to_string(line) + ":" +
             std::to_string(column) + ": " + what;
  }

  void read_line(Fields& fields) {
    if (!in_body_) return read_header(fields);
    if (ended_) throw Fields::Wrong{"nothing but comments may follow 'end'"};
    static constexpr std::string_view kinds[]{"op", "transfer", "buffer", "end"};
    switch (fields.one_of("kind of line", kinds)) {
      case 0:
        return read_task(fields, false);
      case 1:
        return read_task(fields, true);
      case 2:
        return read_buffer(fields);
      default:
        return read_end(fields);
    }
  }

  void read_header(Fields& fields) {
    static constexpr std::string_view modes[]{"graph", "stream", "eager"};
    static constexpr std::string_view ways[]{"link", "host", "peer"};
    static constexpr std::string_view memories[]{"none", "live"};
    static constexpr const char* keywords[]{"baechi-plan", "name", "hash", "devices",
                                            "queues",      "mode", "way",  "memory"};
    const int budgets = static_cast<int>(plan_.budget.size());
    const int residents = static_cast<int>(plan_.resident.size());
    if (header_ < 8) {
      fields.expect(keywords[header_]);
    } else {
      fields.expect(budgets < plan_.devices ? "budget" : "resident");
    }
    switch (header_) {
      case 0:
        if (fields.word("version") != "1")
          throw Fields::Wrong{"this plan's version is not known; version 1 is"};
        break;
      case 1:
        plan_.name = fields.word("name");
        if (!is_name(plan_.name))
          throw Fields::Wrong{quoted(plan_.name) +
                              " is no name: up to 200 letters, digits and _.:/@=+-"};
        break;
      case 2:
        plan_.hash = fields.word("hash");
        if (!is_hash(plan_.hash))
          throw Fields::Wrong{quoted(plan_.hash) + " is no hash: 16 digits of 0-9 and a-f"};
        break;
      case 3:
        plan_.devices = static_cast<int>(fields.number("number of devices", 1, 64));
        break;
      case 4:
        plan_.queues = static_cast<int>(fields.number("number of queues", 1, 8));
        break;
      case 5:
        plan_.mode = static_cast<Mode>(fields.one_of("mode", modes));
        break;
      case 6:
        plan_.way = static_cast<Way>(fields.one_of("way", ways));
        break;
      case 7:
        plan_.memory = static_cast<Memory>(fields.one_of("kind of memory", memories));
        break;
      default: {
        const bool budget = budgets < plan_.devices;
        const int device = budget ? budgets : residents;
        if (fields.index("device", plan_.devices) != device)
          throw Fields::Wrong{"device " + std::to_string(device) + " is next"};
        (budget ? plan_.budget : plan_.resident).push_back(fields.number("bytes", 0, largest));
        in_body_ = !budget && device + 1 == plan_.devices;
      }
    }
    fields.end();
    if (header_ < 8) ++header_;
  }

  void read_task(Fields& fields, bool transfer) {
    const auto id = static_cast<std::int64_t>(plan_.tasks.size());
    if (id >= most_tasks) throw Fields::Wrong{"a plan has at most 10000000 tasks"};
    plan_.tasks
        .emplace_back();  // also if the line is wrong, so that later ones do not seem so, too
    Task task{.transfer = transfer};
    if (fields.number("task", 0, largest) != id)
      throw Fields::Wrong{"task " + std::to_string(id) + " is next"};
    if (transfer) {
      read_transfer(fields, task);
    } else {
      task.device = fields.index("device", plan_.devices);
      task.ns = fields.number("time", 0, largest);
      task.body = read_body(fields, task.ns);
    }
    if (!fields.empty()) {
      fields.expect("after");
      do {
        task.after.push_back(fields.index("earlier task", id));
        if (task.after.size() > 1 && task.after.back() <= *(task.after.end() - 2))
          throw Fields::Wrong{"the tasks behind 'after' ascend, each once"};
      } while (!fields.empty());
    }
    plan_.tasks.back() = std::move(task);
  }

  void read_transfer(Fields& fields, Task& task) {
    task.from = read_end_of_transfer(fields);
    task.to = read_end_of_transfer(fields);
    if (plan_.way == Way::host) {
      if ((task.from == host) == (task.to == host))
        throw Fields::Wrong{"one end of a transfer of way host is 'host', the other a device"};
    } else if (task.from == task.to) {
      throw Fields::Wrong{"a transfer has two different ends"};
    }
    task.device = task.from == host ? task.to : task.from;
    task.queue = fields.index("queue", plan_.queues);
    task.bytes = fields.number("bytes", 0, largest);
    task.ns = fields.number("time", 0, largest);
  }

  int read_end_of_transfer(Fields& fields) {
    if (plan_.way != Way::host) return fields.index("device", plan_.devices);
    const std::string_view text = fields.word("device or 'host'");
    if (text == "host") return host;
    return Fields(text).index("device", plan_.devices);
  }

  static Body read_body(Fields& fields, std::int64_t ns) {
    static constexpr std::string_view kinds[]{"spin", "gemm", "ew", "cublas"};
    Body body{.kind = static_cast<Body::Kind>(fields.one_of("body", kinds))};
    switch (body.kind) {
      case Body::Kind::spin:
        body.a = fields.number("time", 0, largest);
        if (body.a != ns) throw Fields::Wrong{"a spin's two times differ"};
        break;
      case Body::Kind::gemm:
        body.a = fields.number("size", 16, 16384);
        if (body.a % 16 != 0) throw Fields::Wrong{"gemm's size is a multiple of 16"};
        break;
      case Body::Kind::ew:
        body.a = fields.number("bytes", 32, largest);
        if (body.a % 32 != 0) throw Fields::Wrong{"ew's bytes are a multiple of 32"};
        break;
      case Body::Kind::cublas:
        for (std::int64_t* size : {&body.a, &body.b, &body.c})
          *size = fields.number("size", 1, 16384);
    }
    return body;
  }

  void read_buffer(Fields& fields) {
    const auto id = static_cast<std::int64_t>(plan_.buffers.size());
    plan_.buffers.emplace_back();
    Buffer buffer;
    if (fields.number("buffer", 0, largest) != id)
      throw Fields::Wrong{"buffer " + std::to_string(id) + " is next"};
    buffer.device = fields.index("device", plan_.devices);
    buffer.bytes = fields.number("bytes", 0, largest);
    buffer.task = fields.index("task above", static_cast<std::int64_t>(plan_.tasks.size()));
    fields.expect("until");
    do {
      buffer.until.push_back(static_cast<int>(fields.number("task", 0, most_tasks)));
      if (buffer.until.back() < buffer.task)
        throw Fields::Wrong{"the buffer would be given back before it is taken"};
      if (buffer.until.size() > 1 && buffer.until.back() <= *(buffer.until.end() - 2))
        throw Fields::Wrong{"the tasks behind 'until' ascend, each once"};
    } while (!fields.empty());
    if (buffer.until.back() > furthest_.task) furthest_ = {buffer.until.back(), line_};
    plan_.buffers.back() = std::move(buffer);
  }

  void read_end(Fields& fields) {
    const auto tasks = static_cast<std::int64_t>(plan_.tasks.size());
    const auto buffers = static_cast<std::int64_t>(plan_.buffers.size());
    ended_ = true;
    if (fields.number("number of tasks", 0, largest) != tasks)
      throw Fields::Wrong{"there are " + std::to_string(tasks) + " tasks"};
    if (fields.number("number of buffers", 0, largest) != buffers)
      throw Fields::Wrong{"there are " + std::to_string(buffers) + " buffers"};
    fields.end();
  }

  void check_whole() {
    if (!ended_) return add(line_, 1, "the file ends without its 'end' line");
    if (furthest_.task >= static_cast<int>(plan_.tasks.size()))
      add(furthest_.line, 1, "there is no task " + std::to_string(furthest_.task));
  }

  /// The last task that any buffer waits for: it may come later, so it is checked at the end.
  struct Furthest {
    int task = -1;
    std::int64_t line = 0;
  };

  const std::string& file_;
  Plan plan_;
  Furthest furthest_;
  std::string text_;
  std::size_t mistakes_ = 0;
  std::int64_t line_ = 0;
  int header_ = 0;  ///< header lines with a keyword of their own that were read
  bool in_body_ = false;
  bool ended_ = false;
};

}  // namespace

const char* name_of(Mode mode) {
  static constexpr const char* names[]{"graph", "stream", "eager"};
  return names[static_cast<int>(mode)];
}

const char* name_of(Way way) {
  static constexpr const char* names[]{"link", "host", "peer"};
  return names[static_cast<int>(way)];
}

const char* name_of(Body::Kind kind) {
  static constexpr const char* names[]{"spin", "gemm", "ew", "cublas"};
  return names[static_cast<int>(kind)];
}

std::string args_of(const Body& body) {
  std::string text = std::to_string(body.a);
  if (body.kind == Body::Kind::cublas)
    text += " " + std::to_string(body.b) + " " + std::to_string(body.c);
  return text;
}

Plan read_plan(std::istream& in, const std::string& file) {
  return Reader(file).read(in);
}

Plan read_plan_file(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw BadInput(file + ": cannot be read");
  return read_plan(in, file);
}

}  // namespace replay
