#include "scenarios/studies/codesign/codesign.h"

#include <oneapi/tbb/parallel_for.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "scenarios/run/build.h"
#include "sim/csv_table.h"
#include "traces/format/compressed_file.h"

namespace baechi {
namespace {

AreaTable table_of_csv(std::string_view text, const std::string& path) {
  const CsvTable csv(text, path);
  const std::size_t part = csv.column("part"), size = csv.column("size"),
                    area = csv.column("area_um2");
  AreaTable table;
  for (std::size_t row = 0; row < csv.num_rows(); ++row) {
    const std::string& word = csv.text(row, part);
    const double value = csv.number(row, area);
    bool first = true;
    if (word == "buffer") {
      const auto bytes = parse_bytes(csv.text(row, size));
      if (!bytes)
        throw InputError(fmt::format("{}: '{}' is not a size such as '64 MiB'",
                                     csv.where(row, size), csv.text(row, size)));
      first = table.buffer.emplace(*bytes, value).second;
    } else if (word == "tensor_core") {
      first = table.tensor_core.emplace(csv.whole(row, size, 1), value).second;
    } else if (word == "vector_core") {
      first = table.vector_core.emplace(csv.whole(row, size, 1), value).second;
    } else {
      const std::vector<std::string> parts{"tensor_core", "vector_core", "buffer"};
      throw InputError(fmt::format("{}: {}", csv.where(row, part), not_one_of(word, parts)));
    }
    if (!first)
      throw InputError(fmt::format("{}: a {} of {} is listed twice", csv.where(row, size), word,
                                   csv.text(row, size)));
  }
  return table;
}

/// The entries with the fewest and the most cores, of entries that differ in this number alone.
struct Ends {
  std::int64_t few = std::numeric_limits<std::int64_t>::max(), many = 0;
  double least = 0.0, most = 0.0;

  void add(std::int64_t cores, double area) {
    if (cores < few) few = cores, least = area;
    if (cores > many) many = cores, most = area;
  }
  std::int64_t cores() const { return many - few; }
};

/// The area of a core for each key, from the entries with the most different numbers of cores.
class CoreAreas {
 public:
  void add(const Accelerator& rest, std::int64_t key, std::int64_t cores, double area) {
    ends_[{key, rest}].add(cores, area);
  }
  std::map<std::int64_t, double> areas() const {
    std::map<std::int64_t, std::pair<std::int64_t, double>> found;
    for (const auto& [key, ends] : ends_) {
      auto& [span, area] = found[key.first];
      if (ends.cores() <= span) continue;
      span = ends.cores();
      area = (ends.most - ends.least) / static_cast<double>(span);
    }
    std::map<std::int64_t, double> areas;
    for (const auto& [key, value] : found)
      if (value.first > 0) areas[key] = value.second;
    return areas;
  }

 private:
  std::map<std::pair<std::int64_t, Accelerator>, Ends> ends_;
};

/// An entry of PHAZE's list: an accelerator and its area in um2.
struct ListedAccelerator {
  Accelerator design;
  double area = 0.0;
};

AreaTable table_of_list(const std::vector<ListedAccelerator>& list, const std::string& path) {
  CoreAreas tensor, vector;
  for (const auto& [design, area] : list) {
    Accelerator rest = design;
    rest.tensor_cores = 0;
    tensor.add(rest, design.width * design.depth, design.tensor_cores, area);
    rest = design;
    rest.vector_cores = 0;
    vector.add(rest, design.width, design.vector_cores, area);
  }
  AreaTable table{.tensor_core = tensor.areas(), .vector_core = vector.areas()};
  // The entry of the smallest area has the smallest rounding error.
  std::map<Bytes, double> smallest;
  for (const auto& [design, area] : list) {
    const auto t = table.tensor_core.find(design.width * design.depth);
    const auto v = table.vector_core.find(design.width);
    if (t == table.tensor_core.end() || v == table.vector_core.end()) continue;
    const auto [it, first] = smallest.try_emplace(design.buffer, area);
    if (!first && area >= it->second) continue;
    it->second = area;
    table.buffer[design.buffer] = area - static_cast<double>(design.tensor_cores) * t->second -
                                  static_cast<double>(design.vector_cores) * v->second;
  }
  for (const auto& [design, area] : list) {
    const auto sum = table.area(design);
    if (!sum || std::abs(*sum - area) > 1e-9 * area)
      throw InputError(fmt::format("{}: the area {} of {} is not the sum of its parts", path, area,
                                   to_text(design)));
  }
  return table;
}

std::vector<ListedAccelerator> list_of_json(const std::string& text, const std::string& path) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_array() || json.empty())
    throw InputError(fmt::format(
        "{}: neither CSV with the columns part, size, area_um2 nor a JSON array of accelerators",
        path));
  std::vector<ListedAccelerator> list;
  for (const auto& entry : json) {
    const auto wrong = [&](const char* key) {
      return InputError(
          fmt::format("{}: accelerator {} has no number '{}' above 0", path, list.size(), key));
    };
    const auto whole = [&](const char* key) {
      if (!entry.is_object() || !entry.contains(key) || !entry[key].is_number_integer() ||
          entry[key].get<std::int64_t>() < 1)
        throw wrong(key);
      return entry[key].get<std::int64_t>();
    };
    ListedAccelerator one{.design = {.tensor_cores = whole("num_tc"),
                                     .vector_cores = whole("num_vc"),
                                     .width = whole("width"),
                                     .depth = whole("depth"),
                                     .buffer = Bytes{whole("GLB_Buffer")}}};
    if (!entry.contains("area") || !entry["area"].is_number() || entry["area"].get<double>() <= 0.0)
      throw wrong("area");
    one.area = entry["area"].get<double>();
    if (entry.contains("width_vc") && whole("width_vc") != one.design.width)
      throw InputError(
          fmt::format("{}: accelerator {} has vector cores of another width", path, list.size()));
    list.push_back(one);
  }
  return list;
}

constexpr double no_plan = std::numeric_limits<double>::infinity();

/// Designs planned at once; independent of the machine, so that the same are visited everywhere.
constexpr std::size_t at_once = 8;

double total_seconds(const VisitedDesign& v) { return v.plan ? v.plan->seconds : no_plan; }

bool better(const VisitedDesign& a, const VisitedDesign& b) {
  return std::pair(total_seconds(a), a.sized.area) < std::pair(total_seconds(b), b.sized.area);
}

class DesignSearch {
 public:
  DesignSearch(const DesignPlanner& planner, const DesignList& list, const CodesignChoice& choice,
               std::atomic<std::size_t>& done)
      : planner_(planner), list_(list), choice_(choice), done_(done) {}

  DesignAnswer run() && {
    if (list_.reference) {
      visit({.sized = *list_.reference, .plan = planner_.best(list_.reference->design)});
      answer_.reference = 0;
    }
    answer_.designs = list_.designs.size();
    order();
    for (std::size_t begin = 0; begin < order_.size(); begin += at_once)
      if (!visit_some(begin, std::min(begin + at_once, order_.size()))) break;
    if (answer_.visited.empty() || total_seconds(answer_.visited[best_]) == no_plan)
      answer_.best.reset();
    else
      answer_.best = best_;
    answer_.proved = answer_.proved || left_ == 0;
    mark_front();
    return std::move(answer_);
  }

 private:
  void order() {
    for (std::size_t i = 0; i < list_.designs.size(); ++i)
      if (!list_.reference || list_.designs[i].design != list_.reference->design)
        order_.push_back(i);
    left_ = order_.size();
    if (choice_.order == CodesignOrder::area) return;
    least_.assign(list_.designs.size(), 0.0);
    tbb::parallel_for(std::size_t{0}, order_.size(), [&](std::size_t i) {
      least_[order_[i]] = planner_.least_seconds(list_.designs[order_[i]].design);
    });
    std::ranges::stable_sort(order_, {}, [&](std::size_t i) { return least_[i]; });
  }

  /// False if the search ends before `end`.
  bool visit_some(std::size_t begin, std::size_t end) {
    std::vector<VisitedDesign> some(end - begin);
    tbb::parallel_for(std::size_t{0}, some.size(), [&](std::size_t i) {
      const SizedDesign& sized = list_.designs[order_[begin + i]];
      some[i] = {.sized = sized, .plan = planner_.best(sized.design)};
      ++done_;
    });
    for (std::size_t i = 0; i < some.size(); ++i) {
      const bool bounded = choice_.order == CodesignOrder::bound;
      // Only a larger bound ends the search: an equally fast but smaller design would be better.
      if (bounded && !answer_.visited.empty() &&
          least_[order_[begin + i]] > total_seconds(answer_.visited[best_])) {
        answer_.proved = true;
        return false;
      }
      if (!bounded && choice_.patience > 0 && idle_ >= choice_.patience) return false;
      visit(some[i]);
      --left_;
    }
    return true;
  }

  void visit(const VisitedDesign& v) {
    answer_.visited.push_back(v);
    const std::size_t last = answer_.visited.size() - 1;
    const bool gains = last == 0 || better(answer_.visited[last], answer_.visited[best_]);
    if (gains) best_ = last;
    idle_ = gains ? 0 : idle_ + 1;
  }

  void mark_front() {
    std::vector<std::size_t> by_area(answer_.visited.size());
    std::iota(by_area.begin(), by_area.end(), std::size_t{0});
    std::ranges::stable_sort(by_area, {}, [&](std::size_t i) {
      return std::pair(answer_.visited[i].sized.area, total_seconds(answer_.visited[i]));
    });
    double least = no_plan;
    for (const std::size_t i : by_area) {
      VisitedDesign& v = answer_.visited[i];
      if (total_seconds(v) >= least) continue;
      least = total_seconds(v);
      v.on_front = true;
    }
  }

  const DesignPlanner& planner_;
  const DesignList& list_;
  const CodesignChoice& choice_;
  std::atomic<std::size_t>& done_;
  std::vector<std::size_t> order_;  // of list_.designs
  std::vector<double> least_;       // [designs] lower bounds, if ordered by bounds
  DesignAnswer answer_;
  std::size_t best_ = 0;   // of answer_.visited
  std::size_t left_ = 0;   // not visited yet, of order_
  std::int64_t idle_ = 0;  // visits in a row without gain
};

}  // namespace

AreaTable read_area_table(const std::string& path) {
  const std::string text = read_file(path);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && (text[first] == '[' || text[first] == '{'))
    return table_of_list(list_of_json(text, path), path);
  return table_of_csv(text, path);
}

DesignList designs_within(const CodesignChoice& choice, const AreaTable& areas) {
  DesignList list;
  if (choice.reference) {
    const auto area = areas.area(*choice.reference);
    if (!area)
      throw InputError(fmt::format("{}codesign.reference: {} has no areas for {}", at(choice.where),
                                   choice.areas, to_text(*choice.reference)));
    list.reference = SizedDesign{*choice.reference, *area};
  }
  if (!choice.area && !list.reference)
    throw InputError(fmt::format("{}codesign: it needs 'area' or 'reference'", at(choice.where)));
  list.limit = choice.area ? *choice.area : list.reference->area;
  const DesignSpace& s = choice.space;
  list.combinations = s.tensor_cores.size() * s.vector_cores.size() * s.width.size() *
                      s.depth.size() * s.buffer.size();
  for (const std::int64_t tensor_cores : s.tensor_cores)
    for (const std::int64_t vector_cores : s.vector_cores)
      for (const std::int64_t width : s.width)
        for (const std::int64_t depth : s.depth)
          for (const Bytes buffer : s.buffer) {
            const Accelerator design{tensor_cores, vector_cores, width, depth, buffer};
            const auto area = areas.area(design);
            if (area && *area <= list.limit * (1.0 + 1e-12) &&
                *area >= choice.least_area * list.limit)
              list.designs.push_back({design, *area});
          }
  if (list.designs.empty())
    throw InputError(fmt::format(
        "{}codesign.space: none of its {} architectures has a known area from {:.4g} to {:.4g} mm2",
        at(choice.where), list.combinations, choice.least_area * list.limit / 1e6,
        list.limit / 1e6));
  std::ranges::sort(list.designs, std::greater<>(),
                    [](const SizedDesign& d) { return std::pair(d.area, d.design); });
  return list;
}

DesignAnswer search_designs(const DesignPlanner& planner, const DesignList& list,
                            const CodesignChoice& choice, std::atomic<std::size_t>& done) {
  return DesignSearch(planner, list, choice, done).run();
}

std::vector<std::size_t> CodesignResult::ranked() const {
  std::vector<std::size_t> ranks(answer.visited.size());
  std::iota(ranks.begin(), ranks.end(), std::size_t{0});
  std::erase_if(ranks, [&](std::size_t i) { return !answer.visited[i].plan; });
  std::ranges::stable_sort(ranks, {}, [&](std::size_t i) {
    return std::pair(answer.visited[i].plan->seconds, answer.visited[i].sized.area);
  });
  return ranks;
}

std::optional<double> CodesignResult::gain() const {
  if (!answer.best || !answer.reference || !answer.visited[*answer.reference].plan)
    return std::nullopt;
  return answer.visited[*answer.reference].plan->seconds /
         answer.visited[*answer.best].plan->seconds;
}

CodesignResult codesign_of(const ScenarioFile& file, const Watch& watch) {
  if (!file.codesign) throw InputError(fmt::format("{}: it has no section 'codesign'", file.path));
  const CodesignChoice& choice = *file.codesign;
  if (file.graphs.size() != 1 || file.clusters.size() != 1)
    throw InputError(
        fmt::format("{}: codesign takes one graph and one cluster, without a sweep", file.path));
  const GraphChoice& graph = file.graphs.front();
  if (!graph.generate)
    throw InputError(fmt::format(
        "{}codesign needs a graph that is generated: plans choose its batch and its ranks",
        at(graph.where)));
  const TrainingJob job{
      .generator = graph.generate->name, .options = graph.generate->options, .batch = choice.batch};
  const ClusterChoice& devices = file.clusters.front();
  for (const DeviceChoice& d : devices.devices)
    if (d.memory != devices.devices.front().memory)
      throw InputError(
          fmt::format("{}: codesign needs devices of equal memory: all become the same accelerator",
                      file.path));
  const Cluster cluster = make_cluster(devices);
  const DesignList list = designs_within(choice, read_area_table(choice.areas));
  std::atomic<std::size_t> done{0};
  const auto watching = watch(done, list.designs.size());
  const DesignPlanner planner(job, choice, cluster);
  return {.answer = search_designs(planner, list, choice, done),
          .combinations = list.combinations,
          .limit = list.limit,
          .batch = choice.batch};
}

}  // namespace baechi
