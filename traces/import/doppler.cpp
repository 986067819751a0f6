#include "sim/text.h"
#include "traces/format/compressed_file.h"
#include "traces/format/json_string.h"
#include "traces/importer.h"

namespace baechi {
namespace {

// The format, by line: the number of nodes, inputs of the computation included; the ids of these
// inputs; the sources of all edges; their destinations, in the same order; then one line
// `compute,comm[,kind]` per op. Edges are between ops, which are numbered from 0 in the order of
// their lines. There are as many ops as nodes less inputs. Numbers are separated by commas.
// Source: DOPPLER (ICLR 2026) and its repository xinyuyao/Doppler, files gdp_*.txt.
//
// Decisions:
// - The files state no unit; compute and comm have the same one. 1e-8 us per unit reproduces the
//   authors' measurements (option `unit_us`). comm becomes the measured transfer time of the op's
//   output.
// - comm is not a size: for `formation` ops it is 4 x the output's floats, for a matmul 4 x its
//   multiply-adds. Output sizes are unknown, so outputs take no memory.
// - Published files without `gdp_` in their names have a stray comma in a number of line 4. The two
//   lists then differ in length, and the file is rejected.

using FilePosition = std::pair<std::size_t, std::size_t>;  // line, column

class DopplerReader {
 public:
  DopplerReader(TextFile& file, Options& options)
      : path_(file.path()),
        unit_us_(options.get("unit_us", 1e-8, "microseconds per unit of compute and comm")),
        text_(file.rest()) {}

  Trace read() {
    require_utf8(path_, text_);
    Trace trace{.source = "DOPPLER (xinyuyao/Doppler)"};
    const std::vector<Line> all = lines();
    if (all.size() < 5)
      throw InputError(
          fmt::format("{}: {} lines: the number of nodes, the inputs, the sources and the "
                      "destinations of the edges are the first four, then comes a line per op",
                      path_, all.size()));
    const std::vector<Number> nodes = numbers(all[0]), inputs = numbers(all[1]),
                              sources = numbers(all[2]), destinations = numbers(all[3]);
    if (nodes.size() != 1) mistake({all[0].number, 1}, "the number of nodes is one number");
    for (std::size_t i = 4; i < all.size(); ++i) read_op(all[i]);
    if (sources.size() != destinations.size())
      mistake({all[3].number, 1},
              fmt::format("{} destinations of {} sources: each edge has one of both",
                          destinations.size(), sources.size()));
    mistakes_.throw_if_any();
    const auto ops = static_cast<std::int64_t>(output_.size());
    if (nodes[0].value != ops + static_cast<std::int64_t>(inputs.size()))
      mistake(nodes[0].place, fmt::format("{} nodes, but there are {} inputs and {} ops",
                                          nodes[0].value, inputs.size(), ops));
    for (const auto* ends : {&sources, &destinations})
      for (const Number& n : *ends)
        if (n.value >= ops)
          mistake(n.place, fmt::format("no op {}: ops are numbered 0 to {}", n.value, ops - 1));
    mistakes_.throw_if_any();
    for (std::size_t i = 0; i < sources.size(); ++i)
      builder_.add_edge(output_[static_cast<std::size_t>(sources[i].value)],
                        static_cast<OpId>(static_cast<std::uint32_t>(destinations[i].value)));
    trace.notes.push_back(fmt::format(
        "times and transfer times are the file's costs x {} us: the file names no unit; "
        "it states no sizes, so that no memory is counted",
        unit_us_));
    trace.graph = build_graph(std::move(builder_), path_);
    return trace;
  }

 private:
  struct Line {
    std::size_t number = 0;
    std::string_view text;
  };
  struct Number {
    std::int64_t value = 0;
    FilePosition place;
  };

  /// The lines that are not blank.
  std::vector<Line> lines() const {
    std::vector<Line> all;
    std::size_t number = 0;
    for (std::string_view rest = text_; !rest.empty();) {
      ++number;
      const std::size_t end = rest.find('\n');
      if (const std::string_view line = rest.substr(0, end); !trimmed(line).empty())
        all.push_back({number, line});
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
    return all;
  }

  std::vector<Number> numbers(const Line& line) {
    std::vector<Number> all;
    for (std::string_view rest = line.text; !rest.empty();) {
      const std::size_t end = rest.find(',');
      const std::string_view item = trimmed(rest.substr(0, end));
      const FilePosition place{line.number,
                               static_cast<std::size_t>(item.data() - line.text.data()) + 1};
      if (const auto n = parse_number<std::int64_t>(item); n && *n >= 0)
        all.push_back({*n, place});
      else if (!item.empty() || end != std::string_view::npos)
        mistake(place, fmt::format("'{}' is not a whole number >= 0", item.substr(0, 40)));
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
      if (trimmed(rest).empty()) break;  // lists end with a comma
    }
    return all;
  }

  void read_op(const Line& line) {
    const std::size_t first = line.text.find(','), second = line.text.find(',', first + 1);
    if (first == std::string_view::npos)
      return mistake({line.number, 1}, "an op is 'compute,comm' or 'compute,comm,kind'");
    const bool has_kind = second != std::string_view::npos;
    const auto compute = value(line, line.text.substr(0, first), "a compute cost");
    const auto comm = value(
        line, line.text.substr(first + 1, has_kind ? second - first - 1 : std::string_view::npos),
        "a communication cost");
    if (!compute || !comm) return;
    const std::string name = fmt::format("op{}", output_.size());
    const OpId op = builder_.add_op({.name = name,
                                     .kind = has_kind ? trimmed(line.text.substr(second + 1)) : "",
                                     .compute = time(*compute, line)});
    output_.push_back(builder_.add_tensor(op, {}));
    builder_.set_transfer(output_.back(), time(*comm, line));
  }

  std::optional<double> value(const Line& line, std::string_view text, std::string_view what) {
    const std::string_view item = trimmed(text);
    const auto number = parse_number<double>(item);
    if (number && *number >= 0.0 && *number < 0x1p62) return number;
    mistake({line.number, static_cast<std::size_t>(item.data() - line.text.data()) + 1},
            fmt::format("'{}' is not {}, a number >= 0", item.substr(0, 40), what));
    return std::nullopt;
  }

  Duration time(double units, const Line& line) {
    const auto time = from_us(units * unit_us_);
    if (!time) mistake({line.number, 1}, "a time of over 146 years");
    return time.value_or(Duration{});
  }

  void mistake(FilePosition place, std::string_view what) {
    mistakes_.add(fmt::format("{}:{}:{}: {}", path_, place.first, place.second, what));
  }

  std::string path_;
  double unit_us_;
  std::string text_;
  Mistakes mistakes_;
  OpGraphBuilder builder_;
  std::vector<TensorId> output_;  // by op
};

/// Whether the line has only digits, commas and white space.
bool is_list(std::string_view line) {
  return !line.empty() && line.find_first_not_of("0123456789, \t\r") == std::string_view::npos;
}

}  // namespace

bool looks_like_doppler(std::string_view beginning) {
  // Expects a line with one number, two lists, and the beginning of a third.
  for (int line = 0; line < 3; ++line) {
    const std::size_t end = beginning.find('\n');
    const std::string_view text = beginning.substr(0, end);
    if (end == std::string_view::npos || !is_list(text)) return false;
    if ((text.find(',') == std::string_view::npos) != (line == 0)) return false;
    beginning.remove_prefix(end + 1);
  }
  return is_list(beginning.substr(0, std::min(beginning.find('\n'), std::size_t{1000})));
}

Trace read_doppler(TextFile& file, Options& options) { return DopplerReader(file, options).read(); }

}  // namespace baechi
