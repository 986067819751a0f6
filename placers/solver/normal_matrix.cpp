#include "placers/solver/normal_matrix.h"

#include <algorithm>
#include <cmath>

namespace baechi::solver {
namespace {

using Front = Elimination::Front;

// The columns of a front are padded to whole tiles.
constexpr std::size_t tile = 4;
std::size_t padded(std::size_t rows) {
  return (rows + tile - 1) / tile * tile;
}

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
