/// solve_sct(): the program of each part for the solver, the solver's start, and the proof of its
/// answer.
#include <cmath>
#include <numeric>

#include "placers/sct/sct_reduction.h"
#include "placers/solver/linear_program.h"

namespace baechi {
namespace {

using solver::Basis;
using solver::LinearOptimum;
using solver::LinearProgram;
using Term = LinearProgram::Term;
using Rest = Basis::Rest;
constexpr std::uint32_t none = ~std::uint32_t{0};

/// [num_edges] A good x of zeros and ones. Each round sets x = 0 greedily, edges on the longest
/// paths first. Since that makes other paths the longest, each round uses the paths of the running
/// mean of all choices so far. Returns the choice with the least makespan.
std::vector<double> greedy_x(const SctNetwork& net) {
  constexpr int rounds = 20;
  std::vector<double> best(net.num_edges(), 1.0);
  std::vector<double> mean = best;
  double least = net.paths(best).longest;
  std::vector<double> through(net.num_edges());
  std::vector<std::uint32_t> first(net.num_edges());
  for (int round = 0; round < rounds; ++round) {
    const SctNetwork::Paths paths = net.paths(mean);
    for (std::uint32_t e = 0; e < net.num_edges(); ++e)
      through[e] = net.through(paths, e, /*x=*/1.0);
    std::iota(first.begin(), first.end(), 0U);
    std::ranges::sort(first, [&](std::uint32_t a, std::uint32_t b) {
      return through[a] != through[b] ? through[a] > through[b] : a < b;
    });
    std::vector<bool> has_favourite(net.num_ops()), has_parent(net.num_ops());
    std::vector<double> x(net.num_edges(), 1.0);
    for (const std::uint32_t e : first) {
      if (has_favourite[net.src(e)] || has_parent[net.dst(e)]) continue;
      has_favourite[net.src(e)] = has_parent[net.dst(e)] = true;
      x[e] = 0.0;
    }
    for (std::uint32_t e = 0; e < net.num_edges(); ++e) mean[e] = (mean[e] + x[e]) / 2.0;
    if (const double longest = net.paths(x).longest; longest < least) {
      least = longest;
      best = std::move(x);
    }
  }
  return best;
}

/// The answer for the whole graph, combined from the answers of the parts.
struct Answer {
  std::vector<double> x;  // [num_edges]
  SctNetwork::Duals duals;
  bool solved = true;       // in all parts so far
  bool canonical = true;    // in all parts so far
  int interior_starts = 0;  // parts that started from the interior-point method
};

/// The linear program of one part. Times are scaled by a power of two to about 1000.
class SctProgram {
 public:
  SctProgram(const SctReduction& reduction, const SctPart& part, bool canonical);

  LinearProgram program;

  /// The start of the solver: an interior-point optimum where that is worth its time, else
  /// good_vertex().
  solver::Start start(std::optional<bool> interior) const;
  void put(const LinearOptimum& optimum, Answer& answer) const;

 private:
  /// The columns and rows of a block's nodes and edges; `none` where there is no column or row. A
  /// node without edges into it has no start column: it starts at time 0.
  struct Times {
    const SctComponent* block;
    SctNetwork net;
    std::vector<double> good_x;               // [graph.edges]
    std::vector<std::uint32_t> start_column;  // [graph.compute]
    std::vector<std::uint32_t> end_row;       // [graph.compute]
    std::vector<std::uint32_t> time_row;      // [graph.edges]
    std::uint32_t w_column;
  };

  void add_times(Times& times);
  void add_degrees();
  void add_objectives(bool canonical);
  std::vector<double> good_x() const;
  /// The vertex of good_x() and its longest-path trees.
  Basis good_vertex() const;
  void add_tree(const Times& times, Basis& basis) const;
  bool is_hard() const;
  void add_starts(const Times& times, const std::vector<double>& x, Basis& basis) const;

  std::uint32_t column(std::uint32_t e) const {  // of x_e: first columns, in part order
    return static_cast<std::uint32_t>(std::ranges::lower_bound(part_.edges, e) -
                                      part_.edges.begin());
  }

  const SctReduction& reduction_;
  const SctNetwork& net_;
  const SctPart& part_;
  double scale_ = 1.0;
  std::vector<Times> times_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> out_rows_, in_rows_;  // (op, row), by op
};

SctProgram::SctProgram(const SctReduction& reduction, const SctPart& part, bool canonical)
    : reduction_(reduction), net_(reduction.net()), part_(part) {
  double about = 0.0;
  for (const std::uint32_t b : part.blocks) {
    const SctComponent& block = reduction.blocks()[b];
    SctNetwork net(block.graph);
    std::vector<double> x = greedy_x(net);
    about = std::max(about, net.paths(x).longest);
    times_.push_back({.block = &block,
                      .net = std::move(net),
                      .good_x = std::move(x),
                      .start_column = {},
                      .end_row = {},
                      .time_row = {},
                      .w_column = none});
  }
  if (about > 0.0) scale_ = std::exp2(10 - std::ilogb(about));
  for (std::size_t i = 0; i < part.edges.size(); ++i) program.add_column(0.0, 1.0);
  for (Times& times : times_) add_times(times);
  add_degrees();
  add_objectives(canonical);
}

void SctProgram::add_times(Times& times) {
  const SctNetwork& net = times.net;
  const double forever = LinearProgram::infinity;
  times.w_column = program.add_column(-forever, forever);
  times.start_column.assign(net.num_ops(), none);
  for (std::uint32_t v = 0; v < net.num_ops(); ++v)
    if (!net.in_edges(v).empty()) times.start_column[v] = program.add_column(-forever, forever);
  std::vector<Term> row;
  for (std::uint32_t i = 0; i < net.num_edges(); ++i) {
    const std::uint32_t u = net.src(i), v = net.dst(i);
    row = {{column(times.block->edge[i]), net.communication(i) * scale_},
           {times.start_column[v], -1.0}};
    if (times.start_column[u] != none) row.push_back({times.start_column[u], 1.0});
    times.time_row.push_back(program.add_row(-forever, row, -net.compute(u) * scale_));
  }
  times.end_row.assign(net.num_ops(), none);
  for (std::uint32_t v = 0; v < net.num_ops(); ++v) {
    if (!net.out_edges(v).empty()) continue;
    row = {{times.w_column, -1.0}};
    if (times.start_column[v] != none) row.push_back({times.start_column[v], 1.0});
    times.end_row[v] = program.add_row(-forever, row, -net.compute(v) * scale_);
  }
}

void SctProgram::add_degrees() {
  using Op = std::uint32_t (SctNetwork::*)(std::uint32_t) const;
  std::vector<Term> row;
  const auto add = [&](Op op, auto& rows) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> at;  // (op, column)
    for (std::uint32_t i = 0; i < part_.edges.size(); ++i)
      at.emplace_back((net_.*op)(part_.edges[i]), i);
    std::ranges::sort(at);
    for (std::size_t i = 0, j = 0; i < at.size(); i = j) {
      row.clear();
      for (j = i; j < at.size() && at[j].first == at[i].first; ++j)
        row.push_back({at[j].second, 1.0});
      if (row.size() < 2) continue;  // implied by x >= 0
      rows.emplace_back(at[i].first, program.add_row(static_cast<double>(row.size()) - 1.0, row,
                                                     LinearProgram::infinity));
    }
  };
  add(&SctNetwork::src, out_rows_);
  add(&SctNetwork::dst, in_rows_);
}

void SctProgram::add_objectives(bool canonical) {
  if (!times_.empty()) {
    program.objectives.emplace_back(program.num_columns(), 0.0);
    for (const Times& times : times_) program.objectives.back()[times.w_column] = 1.0;
    if (!canonical) return;
  }
  double total = 0.0;
  for (const std::uint32_t e : part_.edges) total += net_.communication(e);
  const double mean = total > 0.0 ? total / static_cast<double>(part_.edges.size()) : 1.0;
  std::vector<double> communication(program.num_columns()), preference(program.num_columns());
  for (std::size_t i = 0; i < part_.edges.size(); ++i) {
    communication[i] = net_.communication(part_.edges[i]) / mean;
    preference[i] = reduction_.weight(part_.edges[i]).preference;
  }
  program.objectives.push_back(std::move(communication));
  program.objectives.push_back(std::move(preference));
}

/// [part.edges] A good x of zeros and ones: the good x of each block, and x = 0 for the heaviest
/// other edges whose degree rows allow it.
std::vector<double> SctProgram::good_x() const {
  std::vector<double> x(part_.edges.size(), 1.0);
  std::vector<std::uint32_t> src, dst;  // of the edges with x = 0 so far
  for (const Times& times : times_)
    for (std::size_t i = 0; i < times.good_x.size(); ++i) {
      if (times.good_x[i] > 0.0) continue;
      x[column(times.block->edge[i])] = 0.0;
      src.push_back(net_.src(times.block->edge[i]));
      dst.push_back(net_.dst(times.block->edge[i]));
    }
  std::ranges::sort(src);
  std::ranges::sort(dst);
  std::vector<std::uint32_t> first;
  for (std::uint32_t i = 0; i < part_.edges.size(); ++i)
    if (!std::ranges::binary_search(src, net_.src(part_.edges[i])) &&
        !std::ranges::binary_search(dst, net_.dst(part_.edges[i])))
      first.push_back(i);
  std::ranges::stable_sort(first, std::greater{},
                           [&](std::uint32_t i) { return reduction_.weight(part_.edges[i]); });
  std::set<std::uint32_t> has_favourite, has_parent;
  for (const std::uint32_t i : first) {
    const std::uint32_t u = net_.src(part_.edges[i]), v = net_.dst(part_.edges[i]);
    if (has_favourite.contains(u) || has_parent.contains(v)) continue;
    has_favourite.insert(u);
    has_parent.insert(v);
    x[i] = 0.0;
  }
  return x;
}

Basis SctProgram::good_vertex() const {
  Basis basis{.columns = std::vector(program.num_columns(), Rest::at_upper),
              .rows = std::vector(program.num_rows(), Rest::basic)};
  const auto row_of = [](const auto& rows, std::uint32_t op) {
    const auto at = std::ranges::lower_bound(rows, op, {}, [](const auto& r) { return r.first; });
    return at != rows.end() && at->first == op ? at->second : none;
  };
  // An edge with x = 0 is basic in place of a degree row that is tight because of the edge. Then
  // the degree row has a price, as in the optimum, which saves the solver most of its steps.
  const std::vector<double> x = good_x();
  for (std::uint32_t i = 0; i < x.size(); ++i) {
    if (x[i] > 0.0) continue;
    const std::uint32_t out = row_of(out_rows_, net_.src(part_.edges[i]));
    const std::uint32_t in = row_of(in_rows_, net_.dst(part_.edges[i]));
    if (out == none && in == none) {
      basis.columns[i] = Rest::at_lower;
      continue;
    }
    basis.rows[out != none ? out : in] = Rest::at_lower;
    basis.columns[i] = Rest::basic;
  }
  for (const Times& times : times_) add_tree(times, basis);
  return basis;
}

void SctProgram::add_tree(const Times& times, Basis& basis) const {
  const SctNetwork& net = times.net;
  const SctNetwork::Paths paths = net.paths(times.good_x);
  const auto tight = [&](std::uint32_t row, std::uint32_t column) {
    basis.rows[row] = Rest::at_upper;
    basis.columns[column] = Rest::basic;
  };
  const auto arrives = [&](std::uint32_t i) {
    return paths.head[net.src(i)] + net.compute(net.src(i)) +
           times.good_x[i] * net.communication(i);
  };
  std::uint32_t last = none;
  for (std::uint32_t v = 0; v < net.num_ops(); ++v) {
    if (const auto in = net.in_edges(v); !in.empty())
      tight(times.time_row[*std::ranges::max_element(in, {}, arrives)], times.start_column[v]);
    if (times.end_row[v] != none &&
        (last == none || paths.head[v] + net.compute(v) > paths.head[last] + net.compute(last)))
      last = v;
  }
  tight(times.end_row[last], times.w_column);
}

/// Whether the simplex method needs many steps from the good vertex, by its makespan and the bound
/// by degrees, in a large program whose rows are short enough for the interior-point method. The
/// simplex method then takes as many steps as there are ops, each in time linear in the program.
/// notes/performance.md has the times of both.
bool SctProgram::is_hard() const {
  constexpr std::size_t large = 20'000;  // rows; below, the simplex method takes a second or two
  constexpr std::size_t dense =
      5;  // mean number of terms that share a row with a term: above, much would fill in
  constexpr double far = 1.25;
  if (program.num_rows() < large || times_.empty()) return false;
  std::size_t meetings = 0;
  for (std::size_t i = 0; i < program.num_rows(); ++i) {
    const std::size_t terms = program.row_begin[i + 1] - program.row_begin[i];
    meetings += terms * terms;
  }
  if (meetings > dense * program.terms.size()) return false;
  double good = 0.0, bound = 0.0;
  for (const Times& times : times_) {
    good += times.net.paths(times.good_x).longest;
    bound += bound_by_degrees(times.net);
  }
  return good > far * bound;
}

solver::Start SctProgram::start(std::optional<bool> interior) const {
  if (interior.value_or(is_hard())) {
    const double rows = static_cast<double>(program.num_rows());
    const double most = interior ? LinearProgram::infinity : rows * rows / 10.0;
    if (auto near = solver::interior_optimum(program, most)) {
      for (const Times& times : times_) add_starts(times, near->x, near->basis);
      near->balance();
      return {.basis = std::move(near->basis), .cost = std::move(near->cost)};
    }
  }
  return {.basis = good_vertex()};
}

/// A node without a tight row may start at several times in the optimum; it gets the earliest, when
/// its inputs arrive.
void SctProgram::add_starts(const Times& times, const std::vector<double>& x, Basis& basis) const {
  const SctNetwork& net = times.net;
  std::vector<double> near(net.num_edges());
  for (std::uint32_t i = 0; i < near.size(); ++i) near[i] = x[column(times.block->edge[i])];
  const SctNetwork::Paths paths = net.paths(near);
  const auto arrives = [&](std::uint32_t i) {
    return paths.head[net.src(i)] + net.compute(net.src(i)) + near[i] * net.communication(i);
  };
  for (std::uint32_t v = 0; v < net.num_ops(); ++v) {
    const auto in = net.in_edges(v);
    if (in.empty() || std::ranges::any_of(in, [&](std::uint32_t i) {
          return basis.rows[times.time_row[i]] != Rest::basic;
        }))
      continue;
    basis.rows[times.time_row[*std::ranges::max_element(in, {}, arrives)]] = Rest::at_upper;
  }
}

void SctProgram::put(const LinearOptimum& optimum, Answer& answer) const {
  if (optimum.status != LinearOptimum::Status::optimal) {
    answer.solved = false;
    return;
  }
  answer.canonical = answer.canonical && optimum.objectives == program.objectives.size();
  for (std::size_t i = 0; i < part_.edges.size(); ++i) answer.x[part_.edges[i]] = optimum.x[i];
  if (times_.empty()) return;
  const auto dual = [&](std::uint32_t row, double factor) {
    return std::max(0.0, factor * optimum.row_dual[row]);
  };
  for (const Times& times : times_) {
    for (std::size_t i = 0; i < times.time_row.size(); ++i)
      answer.duals.edge[times.block->edge[i]] = dual(times.time_row[i], -1.0);
    for (std::size_t v = 0; v < times.end_row.size(); ++v)
      if (times.block->last && times.end_row[v] != none)
        answer.duals.end[times.block->last_op[v]] = dual(times.end_row[v], -1.0);
  }
  for (const auto& [v, row] : out_rows_) answer.duals.out[v] = dual(row, 1.0 / scale_);
  for (const auto& [v, row] : in_rows_) answer.duals.in[v] = dual(row, 1.0 / scale_);
}

void put(const SctStar& star, const SctNetwork& net, const SctPart& part, const SctComponent& block,
         Answer& answer) {
  for (std::size_t i = 0; i < part.edges.size(); ++i) answer.x[part.edges[i]] = star.x[i];
  for (std::size_t i = 0; i < block.edge.size(); ++i) {
    answer.duals.edge[block.edge[i]] = star.flow[i];
    if (block.last) answer.duals.end[block.last_op[block.graph.edges[i].dst]] += star.flow[i];
  }
  if (star.out)
    answer.duals.out[net.src(part.edges.front())] = star.price;
  else
    answer.duals.in[net.dst(part.edges.front())] = star.price;
}

/// Makes `x` feasible: each value in 0 to 1 and a multiple of 2^-36, all degree rows kept to 2^-27.
/// The rounded values can exceed a degree row only with more than a thousand edges of one op: then
/// some of them, the first by id, are rounded the other way.
std::vector<double> round_to_feasible(const SctNetwork& net, std::vector<double> x) {
  for (double& value : x) value = std::clamp(1.0 - value, 0.0, 1.0);  // 1 - x, until the end
  const auto fit = [&](std::span<const std::uint32_t> edges) {
    double sum = 0.0;
    for (const std::uint32_t e : edges) sum += x[e];
    if (sum <= 1.0) return;
    for (const std::uint32_t e : edges) x[e] /= sum;
  };
  for (std::uint32_t v = 0; v < net.num_ops(); ++v) {
    fit(net.out_edges(v));
    fit(net.in_edges(v));
  }
  for (double& value : x) value = std::round(value * 0x1p36) * 0x1p-36;
  const auto fit_again = [&](std::span<const std::uint32_t> edges) {
    double over = -1.0;
    for (const std::uint32_t e : edges) over += x[e];
    if (over <= 0x1p-27) return;
    for (const std::uint32_t e : edges) {
      if (over <= 0.0) return;
      if (x[e] <= 0.0) continue;
      x[e] -= 0x1p-36;
      over -= 0x1p-36;
    }
  };
  for (std::uint32_t v = 0; v < net.num_ops(); ++v) {
    fit_again(net.out_edges(v));
    fit_again(net.in_edges(v));
  }
  for (double& value : x) value = 1.0 - value;
  return x;
}

/// The answer before any part is solved: the decided edges, x = 1 for all other edges, and the end
/// multiplier of the longest node of a last block without open edges.
Answer decided(const SctReduction& reduction) {
  const SctNetwork& net = reduction.net();
  Answer answer{.x = std::vector(net.num_edges(), 1.0),
                .duals = {.edge = std::vector(net.num_edges(), 0.0),
                          .end = std::vector(net.num_ops(), 0.0),
                          .out = std::vector(net.num_ops(), 0.0),
                          .in = std::vector(net.num_ops(), 0.0)}};
  for (std::uint32_t e = 0; e < net.num_edges(); ++e)
    if (reduction.edge(e) == SctEdge::near) answer.x[e] = 0.0;
  for (const SctComponent& block : reduction.blocks())
    if (block.last && block.edge.empty() && !block.last_op.empty())
      answer.duals.end[block.last_op[static_cast<std::size_t>(
          std::ranges::max_element(block.graph.compute) - block.graph.compute.begin())]] = 1.0;
  return answer;
}

}  // namespace

SctSolution solve_sct(const SctGraph& graph, const SctOptions& options) {
  constexpr double close = 1e-9,
                   proved = 1e-7;  // relative to w; `close` unless times differ by large factors
  const SctNetwork net(graph);
  const SctReduction reduction(net);
  const std::vector<SctPart> parts = reduction.parts();
  const auto to_solution = [&](Answer answer) {
    SctSolution s;
    s.x = round_to_feasible(net, std::move(answer.x));
    s.w = net.paths(s.x).longest;
    s.lower_bound = net.lower_bound(std::move(answer.duals), reduction.chained());
    s.canonical = options.canonical && answer.canonical && s.w - s.lower_bound <= proved * s.w;
    s.interior_starts = answer.interior_starts;
    return s;
  };
  const auto attempt = [&](bool from_start) {
    Answer answer = decided(reduction);
    for (const SctPart& part : parts) {
      if (part.blocks.empty() && !options.canonical) continue;
      if (const auto star = solve_star(reduction, part)) {
        put(*star, net, part, reduction.blocks()[part.blocks.front()], answer);
        continue;
      }
      const SctProgram sct(reduction, part, options.canonical);
      const std::optional<solver::Start> start =
          from_start ? std::optional(sct.start(options.interior)) : std::nullopt;
      if (start && !start->cost.empty()) ++answer.interior_starts;
      sct.put(solve(sct.program, start ? &*start : nullptr), answer);
    }
    if (!answer.solved)
      return SctSolution{
          .x = {}, .w = LinearProgram::infinity, .lower_bound = 0.0, .canonical = false};
    return to_solution(std::move(answer));
  };
  SctSolution solution = attempt(/*from_start=*/true);
  if (!(solution.w - solution.lower_bound <= close * solution.w))
    if (SctSolution other = attempt(/*from_start=*/false);
        other.w - other.lower_bound < solution.w - solution.lower_bound)
      solution = std::move(other);
  // Clp may give up if times differ by more than 2^53: then only the decided edges make favourites,
  // and lower_bound bounds the distance from the optimum.
  if (solution.x.size() != net.num_edges()) {
    Answer answer = decided(reduction);
    answer.canonical = false;
    solution = to_solution(std::move(answer));
  }
  BAECHI_CHECK(net.infeasibility(solution.x) <= proved, "x breaks a degree by {}",
               net.infeasibility(solution.x));
  return solution;
}

}  // namespace baechi
