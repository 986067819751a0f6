#include "scenarios/read/choice_text.h"

#include "sim/text.h"

namespace baechi {
namespace {

/// Parses "[a, b]" as a list and any other text as a word.
Options::Value value_of_text(const std::string& text, const std::string& flag) {
  Options::Value value{text, flag, {}};
  if (text.size() < 2 || !text.starts_with('[') || !text.ends_with(']')) return value;
  value.text.clear();
  for (std::string item : split_at_commas(std::string_view(text).substr(1, text.size() - 2))) {
    item.erase(0, item.find_first_not_of(' '));
    item.erase(item.find_last_not_of(' ') + 1);
    value.children.emplace_back("", value_of_text(item, flag));
  }
  return value;
}

std::vector<std::string> split_at_any(std::string_view text, std::string_view separators) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = std::min(text.find_first_of(separators), text.size());
    parts.emplace_back(trimmed(text.substr(0, end)));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

class DeviceWordsReader {
 public:
  DeviceWordsReader(const DeviceWords& words, Mistakes& mistakes)
      : words_(words), mistakes_(mistakes) {}

  std::vector<DeviceChoice> read() {
    if (words_.devices.empty()) return {{.kind = words_.kind}};
    const DeviceModels& known = built_in_devices().devices;
    const auto number = parse_number<std::int64_t>(words_.devices);
    if (number && (*number <= static_cast<std::int64_t>(most_devices) ||
                   find_device(words_.devices, known) == known.end())) {
      add(*number, words_.kind, "kind", words_.kind.empty());
    } else {
      if (!words_.kind.empty())
        mistake("kind", fmt::format("{}devices is a list, which names the types", words_.prefix));
      for (const std::string& item : split_at_any(words_.devices, ",+")) {
        const std::size_t times = item.find_first_not_of("0123456789 ");
        const bool counted = times != 0 && times != item.npos && item[times] == 'x' &&
                             find_device(item, known) == known.end();  // "7900 XT"
        const auto count =
            counted ? parse_number<std::int64_t>(trimmed(std::string_view(item).substr(0, times)))
                    : std::int64_t{1};
        add(count.value_or(0), std::string(trimmed(counted ? item.substr(times + 1) : item)),
            "devices", false);
      }
    }
    if (mistakes_.size() == before_) give_memory();
    return std::move(groups_);
  }

 private:
  void mistake(std::string_view option, const std::string& what) {
    mistakes_.add(fmt::format("{}{}: {}", words_.prefix, option, what));
  }

  void add(std::int64_t count, const std::string& kind, std::string_view option, bool any_kind) {
    if (count < 1 || count > static_cast<std::int64_t>(most_devices))
      mistake("devices", fmt::format("{}: a cluster has at least one device and at most {}", count,
                                     most_devices));
    DeviceChoice& group = groups_.emplace_back();
    group.count = static_cast<std::size_t>(
        std::clamp<std::int64_t>(count, 1, static_cast<std::int64_t>(most_devices)));
    group.kind = kind;
    const DeviceTable& kinds = built_in_devices();
    if (const auto known = find_device(kind, kinds.devices); known != kinds.devices.end()) {
      if (kind != known->first) group.typed = std::exchange(group.kind, known->first);
      group.model = known->second;
      group.memory = known->second->memory;
    } else if (option == "devices" && words_.devices == kind) {
      if (kind.find_first_of("0123456789") != kind.npos)
        return mistake(option, no_such_device(kind, kinds.devices));
      mistake(option, fmt::format("'{}' is not a whole number or a list such as 2xrtx_4090", kind));
      if (words_.memory.empty()) need_memory();
    } else if (words_.memory.empty() && any_kind) {
      need_memory();
    } else if (words_.memory.empty()) {
      mistake(option, no_such_device(kind, kinds.devices) +
                          "; a type that only the graph names needs the memory, too");
    }
  }

  void need_memory() {
    const bool python = words_.prefix.empty();
    mistakes_.add(
        fmt::format("{}memory is missing, such as '{}' (or give the types of the devices: {})",
                    words_.prefix, python ? "memory='8 GiB'" : "--memory '8 GiB'",
                    python ? "devices='2xrtx_4090'" : "--devices 2xrtx_4090"));
  }

  void give_memory() {
    if (words_.memory.empty()) return;
    const std::vector<std::string> texts = split_at_any(words_.memory, ",");
    std::vector<Bytes> sizes;
    for (const std::string& text : texts)
      if (const auto size = parse_bytes(text))
        sizes.push_back(*size);
      else
        mistake("memory", fmt::format("'{}' is not a size such as '8 GiB' or 24G{}", text,
                                      unit_advice(text)));
    std::size_t devices = 0;
    for (const DeviceChoice& group : groups_) devices += group.count;
    if (sizes.size() < texts.size()) return;
    if (sizes.size() == 1 || sizes.size() == groups_.size()) {
      for (std::size_t g = 0; g < groups_.size(); ++g)
        groups_[g].memory = sizes[sizes.size() == 1 ? 0 : g];
    } else if (sizes.size() == devices) {
      std::vector<DeviceChoice> single;
      for (const DeviceChoice& group : groups_)
        for (std::size_t i = 0; i < group.count; ++i) {
          single.push_back(group);
          single.back().count = 1;
          single.back().memory = sizes[single.size() - 1];
        }
      groups_ = std::move(single);
    } else {
      mistake("memory", fmt::format("{} sizes for {} devices", sizes.size(), devices));
    }
  }

  const DeviceWords& words_;
  Mistakes& mistakes_;
  std::size_t before_ = mistakes_.size();
  std::vector<DeviceChoice> groups_;
};

}  // namespace

std::vector<std::string> split_at_commas(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (c == ',' && depth <= 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

Options parse_options(std::string_view owner, const std::vector<std::string>& assignments,
                      const std::string& flag) {
  Mistakes mistakes;
  std::map<std::string, Options::Value> values;
  for (const std::string& assignment : assignments) {
    const std::size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0) {
      mistakes.add(fmt::format("{}{}: '{}' is not key=value", at(flag), owner, assignment));
      continue;
    }
    const std::string key = assignment.substr(0, equals);
    const Options::Value value = value_of_text(assignment.substr(equals + 1), flag);
    if (!values.emplace(key, value).second)
      mistakes.add(fmt::format("{}{}: '{}' is given twice", at(flag), owner, key));
  }
  mistakes.throw_if_any();
  return Options(std::string(owner), std::move(values));
}

Choice parse_choice(std::string_view text, const std::string& flag) {
  constexpr std::string_view program = "exec:";  // the name of an external placer contains its path
  const std::size_t end = text.starts_with(program) ? text.find(',') : text.find(':');
  Choice choice;
  choice.name = text.substr(0, end);
  choice.where = flag;
  choice.label = text;
  std::vector<std::string> assignments;
  if (end != std::string_view::npos) assignments = split_at_commas(text.substr(end + 1));
  const std::string_view owner = text.starts_with(program) ? "exec" : text.substr(0, end);
  choice.options = parse_options(owner, assignments, flag);
  return choice;
}

std::string in_shell(std::string text) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_./:,=+-").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (std::ranges::all_of(text, plain)) return text;
  for (std::size_t i = 0; (i = text.find('\'', i)) != std::string::npos; i += 4)
    text.replace(i, 1, "'\\''");
  return "'" + text + "'";
}

std::vector<DeviceChoice> read_device_words(const DeviceWords& words, Mistakes& mistakes) {
  return DeviceWordsReader(words, mistakes).read();
}

std::optional<Link> read_disk(const std::string& text, Mistakes& mistakes) {
  if (const auto rate = parse_bandwidth(text); rate && *rate > Bandwidth{})
    return Link{.bandwidth = *rate, .latency = std::chrono::microseconds{100}};
  if (!text.empty())
    mistakes.add(fmt::format("--disk: '{}' is not a rate such as '3.5 GB/s'", text));
  return std::nullopt;
}

void add_host(const HostWords& words, ClusterChoice& cluster, Mistakes& mistakes) {
  if (words.memory.empty()) {
    if (!words.disk.empty()) mistakes.add(disk_needs_host);
    return;
  }
  const auto link = built_in_devices().links.find(words.link);
  if (link == built_in_devices().links.end()) {
    mistakes.add(
        fmt::format("{}: '{}' is not in 'baechi list links'", words.link_flag, words.link));
    return;
  }
  const auto memory = parse_bytes(words.memory);
  if (!memory)
    mistakes.add(
        fmt::format("{}: '{}' is not a size such as 64GB", words.memory_flag, words.memory));
  DeviceChoice host{.count = 0, .name = "host", .kind = "host", .memory = memory.value_or(Bytes{})};
  host.model = built_in_devices().devices.at(host.kind);
  for (std::size_t g = 0; g < cluster.devices.size(); ++g) {
    host.count += cluster.devices[g].count;
    cluster.links.push_back({.from = g, .to = cluster.devices.size(), .link = link->second.link});
  }
  cluster.devices.push_back(std::move(host));
  if (const auto disk = read_disk(words.disk, mistakes)) {
    cluster.links.push_back(
        {.from = cluster.devices.size() - 1, .to = cluster.devices.size(), .link = *disk});
    cluster.devices.push_back({.name = "disk", .kind = "disk", .memory = unlimited_memory});
  }
}

}  // namespace baechi
