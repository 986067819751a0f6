#include "scenarios/read/sections.h"
#include "scenarios/read/yaml.h"

namespace baechi {
namespace {

using Value = Options::Value;

constexpr std::int64_t most_extent = 1 << 20;
constexpr std::size_t most_values = 64;  // of one parameter

InputError wrong(const Value& value, std::string_view key, std::string_view what) {
  return InputError(
      fmt::format("{}codesign.{}: {} is not {}", at(value.where), key, one_line(value), what));
}

std::int64_t extent(const Value& value, std::string_view key) {
  const auto n = parse_number<std::int64_t>(value.text);
  if (!n || *n < 1 || *n > most_extent)
    throw wrong(value, key, fmt::format("a whole number from 1 to {}", most_extent));
  return *n;
}

Bytes size(const Value& value, std::string_view key) {
  const auto bytes = parse_bytes(value.text);
  if (!bytes || *bytes <= Bytes{}) throw wrong(value, key, "a size such as '64 MiB'");
  return *bytes;
}

/// A list of distinct values, or one value.
template <class T>
std::vector<T> list_of(const Value& value, std::string_view key, auto read) {
  std::vector<T> values;
  if (!is_list(value)) return {read(value, key)};
  for (const auto& [none, item] : value.children) {
    values.push_back(read(item, key));
    if (std::ranges::count(values, values.back()) > 1)
      throw InputError(
          fmt::format("{}codesign.{}: {} is listed twice", at(item.where), key, item.text));
  }
  if (values.size() > most_values)
    throw wrong(value, key, fmt::format("a list of at most {} values", most_values));
  return values;
}

const Value& needed(const Value& section, std::string_view owner, std::string_view key) {
  const Value* value = find(section, key);
  if (value == nullptr)
    throw InputError(fmt::format("{}{}: it needs '{}'", at(section.where), owner, key));
  return *value;
}

constexpr std::string_view parameters[] = {"tensor_cores", "vector_cores", "width", "depth",
                                           "buffer"};

void check_parameters(const Value& section, std::string_view owner) {
  const std::vector<std::string> known(std::begin(parameters), std::end(parameters));
  for (const auto& [key, value] : section.children)
    if (std::ranges::find(known, key) == known.end())
      throw InputError(fmt::format("{}{}: no parameter '{}'{} (parameters: {})", at(value.where),
                                   owner, key, did_you_mean(key, known), fmt::join(known, ", ")));
}

DesignSpace read_space(const Value& section) {
  check_parameters(section, "codesign.space");
  const auto values = [&](const char* key) {
    return list_of<std::int64_t>(needed(section, "codesign.space", key),
                                 fmt::format("space.{}", key), extent);
  };
  return {
      .tensor_cores = values("tensor_cores"),
      .vector_cores = values("vector_cores"),
      .width = values("width"),
      .depth = values("depth"),
      .buffer = list_of<Bytes>(needed(section, "codesign.space", "buffer"), "space.buffer", size)};
}

Accelerator read_reference(const Value& section) {
  check_parameters(section, "codesign.reference");
  const auto value = [&](const char* key) {
    return extent(needed(section, "codesign.reference", key), fmt::format("reference.{}", key));
  };
  return {.tensor_cores = value("tensor_cores"),
          .vector_cores = value("vector_cores"),
          .width = value("width"),
          .depth = value("depth"),
          .buffer = size(needed(section, "codesign.reference", "buffer"), "reference.buffer")};
}

/// "278.8 mm2", "278826676 um2".
double read_area(const Value& value) {
  for (const auto& [unit, um2] : {std::pair{"mm2", 1e6}, {"um2", 1.0}}) {
    if (!value.text.ends_with(unit)) continue;
    std::string number = value.text.substr(0, value.text.size() - 3);
    while (number.ends_with(' ')) number.pop_back();
    if (const auto n = parse_number<double>(number); n && *n > 0.0 && *n < 1e15) return *n * um2;
  }
  throw wrong(value, "area", "an area such as '280 mm2'");
}

/// "1.05 GHz".
double read_clock(const Value& value) {
  for (const auto& [unit, hertz] : {std::pair{"GHz", 1e9}, {"MHz", 1e6}}) {
    if (!value.text.ends_with(unit)) continue;
    std::string number = value.text.substr(0, value.text.size() - 3);
    while (number.ends_with(' ')) number.pop_back();
    if (const auto n = parse_number<double>(number); n && *n * hertz >= 1e6 && *n * hertz <= 1e12)
      return *n * hertz;
  }
  throw wrong(value, "clock", "a frequency such as '1.05 GHz'");
}

CodesignChoice codesign_options(Options& o, Mistakes& mistakes) {
  CodesignChoice c;
  c.areas = o.path("areas",
                   "areas of the parts: a CSV with the columns part, size, area_um2, or PHAZE's "
                   "list of accelerators");
  if (const Value* v = o.raw("space",
                             "values of each of tensor_cores, vector_cores, width, depth, buffer: "
                             "every combination is an architecture"))
    mistakes.attempt([&] { c.space = read_space(*v); });
  if (const Value* v =
          o.raw("reference",
                "one value of each parameter: visited first; the result is compared with it"))
    mistakes.attempt([&] { c.reference = read_reference(*v); });
  if (const Value* v = o.raw("area", "limit, `280 mm2`; the reference's if not given"))
    mistakes.attempt([&] { c.area = read_area(*v); });
  c.least_area =
      o.get("least_area", 0.0, "least fraction of the limit that an architecture uses", 0.0, 1.0);
  c.order = read_enum(
      o, "order", c.order,
      "order of visits: by decreasing area, or by a lower bound of the step (finds the optimum)");
  c.patience =
      o.get("patience", c.patience,
            "order area: ends after this number of visits in a row without gain; 0: visits all");
  c.planner =
      read_enum(o, "planner", c.planner, "planner that divides a step among the accelerators");
  c.batch = o.get("batch", std::int64_t{1}, "samples of a step, over all replicas", 1,
                  std::int64_t{1} << 40);
  if (const Value* v = o.raw("micro_batch", "samples of a pass to try; [1] if not given"))
    mistakes.attempt([&] { c.micro_batch = list_of<std::int64_t>(*v, "micro_batch", extent); });
  if (const Value* v = o.raw("tensor", "ranks of tensor parallelism to try; [1] if not given"))
    mistakes.attempt([&] { c.tensor = list_of<std::int64_t>(*v, "tensor", extent); });
  if (const Value* v = o.raw("clock", "of the cores, `1.05 GHz`; 1 GHz if not given"))
    mistakes.attempt([&] { c.rates.clock = read_clock(*v); });
  c.rates.memory =
      o.get("memory_bandwidth", Bandwidth{}, "between each accelerator and its memory");
  c.rates.word = o.get("word", c.rates.word, "size of one number in the buffer and in memory");
  return c;
}

}  // namespace

CodesignChoice read_codesign(const Value& section, const std::string& base, Mistakes& mistakes) {
  CodesignChoice choice;
  need(section, "codesign", {"areas", "space", "batch", "memory_bandwidth"}, mistakes);
  mistakes.attempt([&] {
    Options o = options_of(section, "codesign", base);
    choice = codesign_options(o, mistakes);
    o.finish();
    if (find(section, "memory_bandwidth") != nullptr && choice.rates.memory.bytes_per_second <= 0.0)
      throw InputError(fmt::format("{}codesign.memory_bandwidth: not above 0", at(section.where)));
    if (choice.rates.word <= Bytes{})
      throw InputError(fmt::format("{}codesign.word: not above 0", at(section.where)));
  });
  choice.where = section.where;
  return choice;
}

SectionKeys codesign_section_keys() {
  return {
      "codesign",
      "for `baechi study codesign`: which architecture of an accelerator trains the model fastest",
      keys_of_reader([](Options& o) {
        Mistakes none;
        codesign_options(o, none);
      }),
      {"areas", "space", "batch", "memory_bandwidth"}};
}

}  // namespace baechi
