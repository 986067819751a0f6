#include <metis.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <stdexcept>

#include "placers/solver/metis_lock.h"
#include "placers/solver/normal_matrix.h"

namespace baechi::solver {
namespace {

constexpr std::uint32_t none = Elimination::none;

/// For each column, the other columns with which it shares a row.
struct Neighbours {
  std::vector<idx_t> begin{0}, column;
  std::span<const idx_t> of(std::uint32_t j) const {
    return {column.data() + begin[j], column.data() + begin[j + 1]};
  }
};

Neighbours neighbours_of(const LinearProgram& program) {
  const std::size_t n = program.num_columns();
  std::vector<std::size_t> begin(n + 1);
  for (const LinearProgram::Term& term : program.terms) ++begin[term.column + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<std::size_t> next(begin.begin(), begin.end() - 1);
  std::vector<std::uint32_t> row(
      program.terms.size());  // row indices of column 0, of column 1, ...
  for (std::uint32_t i = 0; i < program.num_rows(); ++i)
    for (std::size_t t = program.row_begin[i]; t < program.row_begin[i + 1]; ++t)
      row[next[program.terms[t].column]++] = i;
  Neighbours meets;
  std::vector<std::uint32_t> met_by(n, none);
  for (std::uint32_t j = 0; j < n; ++j) {
    met_by[j] = j;
    for (std::size_t r = begin[j]; r < begin[j + 1]; ++r)
      for (std::size_t t = program.row_begin[row[r]]; t < program.row_begin[row[r] + 1]; ++t) {
        const std::uint32_t k = program.terms[t].column;
        if (met_by[k] == j) continue;
        met_by[k] = j;
        meets.column.push_back(static_cast<idx_t>(k));
      }
    meets.begin.push_back(static_cast<idx_t>(meets.column.size()));
  }
  return meets;
}

/// [num_columns] The columns in the order of nested dissection.
std::vector<std::uint32_t> dissected(Neighbours& meets) {
  idx_t n = static_cast<idx_t>(meets.begin.size() - 1);
  std::vector<idx_t> column(meets.begin.size() - 1), place(meets.begin.size() - 1);
  idx_t options[METIS_NOPTIONS];
  METIS_SetDefaultOptions(options);
  options[METIS_OPTION_SEED] = 0;
  const std::scoped_lock lock(metis_lock());
  if (METIS_NodeND(&n, meets.begin.data(), meets.column.data(), nullptr, options, column.data(),
                   place.data()) != METIS_OK)
    throw std::runtime_error("metis: METIS_NodeND failed");
  return {column.begin(), column.end()};
}

std::vector<std::uint32_t> inverse(const std::vector<std::uint32_t>& order) {
  std::vector<std::uint32_t> place(order.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  return place;
}

/// [places] The first later place in which eliminating a place causes fill-in, or `none`.
/// Source: Liu, "The role of elimination trees in sparse factorization" (1990).
std::vector<std::uint32_t> parents(const Neighbours& meets, const std::vector<std::uint32_t>& order,
                                   const std::vector<std::uint32_t>& place) {
  std::vector<std::uint32_t> parent(order.size(), none), top(order.size(), none);
  for (std::uint32_t j = 0; j < order.size(); ++j)
    for (const idx_t k : meets.of(order[j]))
      for (std::uint32_t i = place[static_cast<std::size_t>(k)]; i < j;) {
        const std::uint32_t above = top[i];
        top[i] = j;
        if (above == none) parent[i] = j;
        if (above == none || above == j) break;
        i = above;
      }
  return parent;
}

/// `order` with every place directly after its subtrees.
std::vector<std::uint32_t> children_first(const std::vector<std::uint32_t>& order,
                                          const std::vector<std::uint32_t>& parent) {
  const auto n = static_cast<std::uint32_t>(order.size());
  std::vector<std::uint32_t> first_child(n, none), sibling(n, none), todo, sorted;
  for (std::uint32_t j = 0; j < n; ++j)
    if (parent[j] != none) {
      sibling[j] = first_child[parent[j]];
      first_child[parent[j]] = j;
    }
  for (std::uint32_t j = n; j-- > 0;)
    if (parent[j] == none) todo.push_back(j);
  while (!todo.empty()) {
    const std::uint32_t j = todo.back();
    if (const std::uint32_t child = first_child[j]; child != none) {
      first_child[j] = none;
      for (std::uint32_t c = child; c != none; c = sibling[c]) todo.push_back(c);
      continue;
    }
    todo.pop_back();
    sorted.push_back(order[j]);
  }
  return sorted;
}

/// Whether merging into a front of these pivots and entries is worth the zeros that it stores: a
/// larger front is faster per entry.
bool worth(std::size_t pivots, std::size_t zeros, std::size_t entries) {
  if (pivots <= 4) return true;
  return zeros * (pivots <= 16 ? 3 : pivots <= 48 ? 8 : 20) <= entries;
}

/// Builds the fronts from the rows of each place's column of the factor.
class Fronts {
 public:
  explicit Fronts(Elimination& to, std::size_t n) : to_(to), front_(n, none) {}

  /// Adds the next place, with the later places in its column, ascending.
  void add(std::uint32_t j, std::uint32_t parent_of_last, const std::vector<std::uint32_t>& below) {
    const std::size_t pivots = j - first_ + 1;
    std::size_t zeros = zeros_, entries = below.size() + 1;
    if (j > 0 && parent_of_last == j) {
      // The columns so far get the rows of this one.
      zeros += pivots_entries(pivots - 1, below.size() + 1) - entries_;
      entries = pivots_entries(pivots, below.size());
    }
    if (j == 0 || parent_of_last != j || !worth(pivots, zeros, entries)) {
      close();
      first_ = j;
      zeros = 0;
      entries = below.size() + 1;
    }
    zeros_ = zeros;
    entries_ = entries;
    last_ = j;
    below_ = below;
    open_ = true;
  }
  void close() {
    if (!open_) return;
    Elimination::Front front{.first = first_,
                             .pivots = last_ - first_ + 1,
                             .begin = to_.rows.size(),
                             .end = 0,
                             .parent = none};
    for (std::uint32_t j = first_; j <= last_; ++j) {
      front_[j] = static_cast<std::uint32_t>(to_.fronts.size());
      to_.rows.push_back(j);
    }
    to_.rows.insert(to_.rows.end(), below_.begin(), below_.end());
    front.end = to_.rows.size();
    to_.fronts.push_back(front);
    open_ = false;
  }
  void link() {
    for (Elimination::Front& front : to_.fronts)
      if (front.size() > front.pivots) front.parent = front_[to_.rows[front.begin + front.pivots]];
  }

 private:
  /// Entries of so many columns, the last of which has `below` rows below the diagonal.
  static std::size_t pivots_entries(std::size_t pivots, std::size_t below) {
    return pivots * (pivots + 1) / 2 + pivots * below;
  }

  Elimination& to_;
  std::vector<std::uint32_t> front_;  // [places]
  std::vector<std::uint32_t> below_;  // of last_
  std::uint32_t first_ = 0, last_ = 0;
  std::size_t zeros_ = 0, entries_ = 0;
  bool open_ = false;
};

}  // namespace

std::size_t Elimination::entries() const {
  std::size_t sum = 0;
  for (const Front& f : fronts) sum += std::size_t{f.pivots} * f.size();
  return sum;
}

double Elimination::multiplications() const {
  double sum = 0.0;
  for (const Front& f : fronts)
    for (std::uint32_t k = 0; k < f.pivots; ++k) {
      const double below = f.size() - k;
      sum += below * below / 2.0;
    }
  return sum;
}

Elimination elimination_of(const LinearProgram& program) {
  Neighbours meets = neighbours_of(program);
  std::vector<std::uint32_t> order = dissected(meets);
  Elimination result{.place = inverse(order), .fronts = {}, .rows = {}};
  order = children_first(order, parents(meets, order, result.place));
  result.place = inverse(order);
  const std::vector<std::uint32_t> parent = parents(meets, order, result.place);

  const auto n = static_cast<std::uint32_t>(order.size());
  Fronts fronts(result, n);
  std::vector<std::vector<std::uint32_t>> below(n);  // of the places without a parent so far
  std::vector<std::uint32_t> seen_by(n, none), first_child(n, none), sibling(n, none);
  for (std::uint32_t j = 0; j < n; ++j) {
    std::vector<std::uint32_t>& rows = below[j];
    const auto see = [&](std::uint32_t i) {
      if (i <= j || seen_by[i] == j) return;
      seen_by[i] = j;
      rows.push_back(i);
    };
    for (const idx_t k : meets.of(order[j])) see(result.place[static_cast<std::size_t>(k)]);
    for (std::uint32_t c = first_child[j]; c != none; c = sibling[c]) {
      for (const std::uint32_t i : below[c]) see(i);
      std::vector<std::uint32_t>().swap(below[c]);
    }
    std::ranges::sort(rows);
    if (parent[j] != none) {
      sibling[j] = first_child[parent[j]];
      first_child[parent[j]] = j;
    }
    fronts.add(j, j > 0 ? parent[j - 1] : none, rows);
  }
  fronts.close();
  fronts.link();
  return result;
}

}  // namespace baechi::solver
