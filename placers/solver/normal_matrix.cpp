#include "placers/solver/normal_matrix.h"

#include <metis.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "placers/solver/metis_lock.h"

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

using Front = Elimination::Front;

// The columns of a front are padded to whole tiles.
constexpr std::size_t tile = 4;
std::size_t padded(std::size_t rows) { return (rows + tile - 1) / tile * tile; }

/// a -= l l^T on a tile of `a`, by columns [begin, end) of the front that `a` and `l` lie in; `at`
/// and `of` are the first row of the tile and of its columns.
void subtract_tile(double* front, std::size_t height, std::size_t at, std::size_t of,
                   std::size_t begin, std::size_t end) {
  double sum[tile][tile] = {};
  for (std::size_t k = begin; k < end; ++k) {
    const double* rows = front + k * height + at;
    const double* columns = front + k * height + of;
    for (std::size_t j = 0; j < tile; ++j)
      for (std::size_t i = 0; i < tile; ++i) sum[j][i] += rows[i] * columns[j];
  }
  for (std::size_t j = 0; j < tile; ++j)
    for (std::size_t i = 0; i < tile; ++i) front[(of + j) * height + at + i] -= sum[j][i];
}

/// Eliminates the first `pivots` columns of a front of so many rows, its lower triangle by columns.
void eliminate(double* front, std::size_t rows, std::size_t pivots) {
  constexpr std::size_t block = 32;  // columns; a multiple of the tile
  constexpr double nothing = 1e-30, infinite = 1e64;
  const std::size_t height = padded(rows);
  for (std::size_t begin = 0; begin < pivots; begin += block) {
    const std::size_t end = std::min(begin + block, pivots);
    for (std::size_t k = begin; k < end; ++k) {
      double* column = front + k * height;
      const double pivot = column[k] > nothing ? std::sqrt(column[k]) : infinite;
      column[k] = pivot;
      for (std::size_t i = k + 1; i < rows; ++i) column[i] /= pivot;
      for (std::size_t j = k + 1; j < end; ++j) {
        double* other = front + j * height;
        const double factor = column[j];
        for (std::size_t i = j; i < rows; ++i) other[i] -= factor * column[i];
      }
    }
    // A tile may begin within the block: its columns there are done and must not change.
    for (std::size_t of = end; of < rows; of += tile)
      for (std::size_t at = of / tile * tile; at < rows; at += tile)
        subtract_tile(front, height, at, of, begin, end);
  }
}

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

NormalMatrix::NormalMatrix(const LinearProgram& program)
    : order_(elimination_of(program)),
      column_(program.num_columns()),
      products_begin_(order_.fronts.size() + 1),
      where_(program.num_columns()) {
  for (std::uint32_t j = 0; j < column_.size(); ++j) column_[order_.place[j]] = j;
  std::vector<std::uint32_t> front(column_.size());  // [places]
  std::size_t most = 0, size = 0;
  for (std::uint32_t f = 0; f < order_.fronts.size(); ++f) {
    const Front& at = order_.fronts[f];
    for (std::uint32_t k = 0; k < at.pivots; ++k) front[at.first + k] = f;
    most = std::max(most, padded(at.size()));
    factor_begin_.push_back(size);
    size += padded(at.size()) * at.pivots;
  }
  factor_.resize(size);
  front_.resize((most + tile) * most + tile);  // the last tile of columns may extend beyond the end

  const auto each = [&](auto&& take) {
    for (std::uint32_t i = 0; i < program.num_rows(); ++i)
      for (std::size_t s = program.row_begin[i]; s < program.row_begin[i + 1]; ++s)
        for (std::size_t t = program.row_begin[i]; t <= s; ++t) {
          const auto [low, high] = std::minmax(order_.place[program.terms[s].column],
                                               order_.place[program.terms[t].column]);
          take(i, low, high, program.terms[s].factor * program.terms[t].factor);
        }
  };
  each([&](std::uint32_t, std::uint32_t low, std::uint32_t, double) {
    ++products_begin_[front[low] + 1];
  });
  for (std::size_t f = 0; f < order_.fronts.size(); ++f)
    products_begin_[f + 1] += products_begin_[f];
  products_.resize(products_begin_.back());
  std::vector<std::size_t> next = products_begin_;
  each([&](std::uint32_t row, std::uint32_t low, std::uint32_t high, double factor) {
    const Front& at = order_.fronts[front[low]];
    const auto begin = order_.rows.begin() + static_cast<std::ptrdiff_t>(at.begin);
    const auto end = order_.rows.begin() + static_cast<std::ptrdiff_t>(at.end);
    const auto local = static_cast<std::size_t>(std::lower_bound(begin, end, high) - begin);
    products_[next[front[low]]++] = {
        row, static_cast<std::uint32_t>((low - at.first) * padded(at.size()) + local), factor};
  });
}

void NormalMatrix::assemble(const Front& front, std::size_t number, std::span<const double> row,
                            std::span<const double> column) {
  const std::size_t height = padded(front.size());
  std::fill(front_.begin(), front_.begin() + static_cast<std::ptrdiff_t>(height * height), 0.0);
  for (std::size_t p = products_begin_[number]; p < products_begin_[number + 1]; ++p)
    front_[products_[p].at] += row[products_[p].row] * products_[p].factor;
  for (std::uint32_t k = 0; k < front.pivots; ++k)
    front_[k * height + k] += column[column_[front.first + k]];
}

/// Adds the contributions of the children of `front`, which are on top of the stack.
void NormalMatrix::add_children(const Front& front) {
  const std::size_t height = padded(front.size());
  for (std::uint32_t i = 0; i < front.size(); ++i) where_[order_.rows[front.begin + i]] = i;
  const auto number = static_cast<std::size_t>(&front - order_.fronts.data());
  while (!children_.empty() && order_.fronts[children_.back()].parent == number) {
    const Front& child = order_.fronts[children_.back()];
    children_.pop_back();
    const std::size_t left = child.size() - child.pivots;
    const std::uint32_t* rows = order_.rows.data() + child.begin + child.pivots;
    const double* from = waiting_.data() + waiting_.size() - left * left;
    for (std::size_t j = 0; j < left; ++j) {
      double* to = front_.data() + where_[rows[j]] * height;
      for (std::size_t i = j; i < left; ++i) to[where_[rows[i]]] += from[j * left + i];
    }
    waiting_.resize(waiting_.size() - left * left);
  }
}

void NormalMatrix::factor(std::span<const double> row, std::span<const double> column) {
  for (std::size_t f = 0; f < order_.fronts.size(); ++f) {
    const Front& front = order_.fronts[f];
    const std::size_t height = padded(front.size()), left = front.size() - front.pivots;
    assemble(front, f, row, column);
    add_children(front);
    eliminate(front_.data(), front.size(), front.pivots);
    std::copy_n(front_.data(), height * front.pivots, factor_.data() + factor_begin_[f]);
    if (left == 0) continue;
    const std::size_t begin = waiting_.size();
    waiting_.resize(begin + left * left);
    for (std::size_t j = 0; j < left; ++j)
      std::copy_n(front_.data() + (front.pivots + j) * height + front.pivots + j, left - j,
                  waiting_.data() + begin + j * left + j);
    children_.push_back(static_cast<std::uint32_t>(f));
  }
}

void NormalMatrix::solve(std::span<double> b) const {
  std::vector<double> x(b.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = b[column_[i]];
  for (std::size_t f = 0; f < order_.fronts.size(); ++f) {
    const Front& front = order_.fronts[f];
    const std::size_t height = padded(front.size());
    for (std::uint32_t k = 0; k < front.pivots; ++k) {
      const double* l = factor_.data() + factor_begin_[f] + k * height;
      const double value = x[front.first + k] /= l[k];
      for (std::uint32_t i = k + 1; i < front.size(); ++i)
        x[order_.rows[front.begin + i]] -= l[i] * value;
    }
  }
  for (std::size_t f = order_.fronts.size(); f-- > 0;) {
    const Front& front = order_.fronts[f];
    const std::size_t height = padded(front.size());
    for (std::uint32_t k = front.pivots; k-- > 0;) {
      const double* l = factor_.data() + factor_begin_[f] + k * height;
      double value = x[front.first + k];
      for (std::uint32_t i = k + 1; i < front.size(); ++i)
        value -= l[i] * x[order_.rows[front.begin + i]];
      x[front.first + k] = value / l[k];
    }
  }
  for (std::size_t i = 0; i < x.size(); ++i) b[column_[i]] = x[i];
}

}  // namespace baechi::solver
