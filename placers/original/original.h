/// The original Baechi's placers m_topo, m_etf and m_sct, bit for bit, quirks and failures
/// included. Source: Baechi's code (beomyeol/baechi; the PyTorch variant:
/// chiragcshetty/BaechiPyTorch). README.md of this folder lists the quirks Q1..Q25 and the rules
/// PT1..PT8 of the PyTorch variant.
#pragma once

#include "placers/interface/placer.h"
#include "placers/sct/favourite_child.h"
#include "sim/original/simulation.h"

namespace baechi::original {

enum class Algorithm : std::uint8_t { m_topo, m_etf, m_sct };
constexpr auto names_of(Algorithm) { return enumerators<Algorithm::m_sct>(); }

struct PlacerOptions {
  Algorithm algorithm = Algorithm::m_etf;
  Variant variant = Variant::standard;
  bool colocation = true;  ///< the PyTorch variant has no groups and ignores this
  bool uniform = true;     ///< m_topo: each device takes an even share, whatever its limit (Q10)
  bool reserve = false;    ///< m_etf, m_sct: keep a group's memory from its first op to its last
  double threshold = 0.1;  ///< m_sct: the largest x that makes an edge a favourite (Q2 at >= 0.5)
};

/// Reads the placer options `compat` and `colocation`: `from` with them if compat is on, else
/// nothing. Reservation without colocation (Q15), which the PyTorch variant never has, is reported
/// as a mistake.
std::optional<PlacerOptions> read_options(Options& options, PlacerOptions from);

inline constexpr DeviceId no_device{~std::uint32_t{0}};

/// A failure of the original: the Python exception, where it is raised, and its text.
struct Failure {
  std::string_view type;   ///< "AssertionError", ...
  std::string_view where;  ///< function
  std::string_view file;   ///< "m_etf.py", ...
  std::string message;     ///< of a KeyError "": the key is the name of the group of `op`
  OpId op = no_op;         ///< the op that was being started, if any
};

/// An assertion of the original; thrown within this folder, place() returns it as
/// PlacerResult::failure.
struct Stop {
  Failure failure;
};

struct PlacerResult {
  IdVector<OpId, DeviceId> device;  ///< [num_ops]; no_device where a failure came first
  std::optional<Failure> failure;
  std::vector<OpId> order;         ///< in the order of their starts; the standard m_topo: empty
  Duration makespan{};             ///< m_etf, m_sct: their estimate
  IdVector<DeviceId, Bytes> used;  ///< at the end; m_topo: all that was charged
  IdVector<DeviceId, Bytes> peak;  ///< m_etf, m_sct, and m_topo of the PyTorch variant
  std::optional<Bytes> cap;        ///< m_topo, uniform: the even share
};

/// `limits`: memory per device. `favourites` (m_sct): the favourite child of each op, or
/// `no_favourite`. The PyTorch variant expects one tensor per edge.
PlacerResult place(const Graph& graph, const IdVector<DeviceId, Bytes>& limits,
                   const PlacerOptions& options, std::span<const std::uint32_t> favourites = {},
                   Log* log = nullptr);

/// The graph of the linear program of the original's m_sct: the same ops and edges.
SctGraph sct_graph(const Graph& graph);

/// The whole original on a Problem: graph view, linear program, placing. The favourites come from
/// our canonical optimum; the original takes the optimum that its solver returns. Throws
/// InfeasibleError with the original's failure, InputError if the cluster is not uniform
/// (Graph::from).
Placement place(const Problem& problem, const PlacerOptions& options);

/// The sums and maxima over a group that the original's groupers compute.
struct Group {
  std::vector<OpId> members;  ///< ascending
  Bytes temporary_max{};
  Bytes outputs_max{};
  Bytes persistent_sum{};
  Bytes outputs_sum{};
};
/// Index 0 (no_group) is empty. [num_groups + 1]
IdVector<GroupId, Group> groups_of(const Graph& graph);

/// The variant's view of a Problem (PT1, PT8): one tensor per edge, with the size and time of all
/// tensors of the producer that the reader reads. Persistent bytes are not part of the outputs.
/// Throws InputError if the cluster is not uniform.
Graph pytorch_graph(const Problem& problem);

/// The bytes in use per device (PT3): nothing that was charged is ever freed.
class PyTorchMemory {
 public:
  /// `device`: the placement so far, no_device for unplaced ops. All arguments must outlive this.
  PyTorchMemory(const Graph& graph, const IdVector<DeviceId, Bytes>& limits,
                const IdVector<OpId, DeviceId>& device)
      : graph_(graph),
        limits_(limits),
        device_(device),
        held_(graph.num_tensors() * limits.size(), false),
        used_(limits.size()),
        peak_(limits.size()) {}

  static Bytes permanent(const Graph::Op& op) { return op.persistent + op.outputs; }
  static Bytes peak_of(const Graph::Op& op) { return permanent(op) + op.temporary; }

  /// Whether the op while it runs, and any earlier peak with the op's weights, fit together with
  /// the inputs that `d` would receive. Throws Stop if a producer is not placed.
  bool fits(OpId v, DeviceId d) const;
  /// Charges `v`, which has been placed on `d`, and all inputs it will receive. Throws Stop as
  /// fits().
  void charge(OpId v, DeviceId d);
  /// The tensor of an edge arrives on `d`; true if it was not there before. PT5: throws Stop if,
  /// after the tensor is charged, the free memory could not hold it a second time.
  bool receive(EdgeId e, DeviceId d);

  const IdVector<DeviceId, Bytes>& used() const { return used_; }
  const IdVector<DeviceId, Bytes>& peak() const { return peak_; }

 private:
  bool held(TensorId t, DeviceId d) const { return held_[index(t) * limits_.size() + index(d)]; }
  Bytes inputs(OpId v, DeviceId d) const;

  const Graph& graph_;
  const IdVector<DeviceId, Bytes>& limits_;
  const IdVector<OpId, DeviceId>& device_;
  std::vector<bool> held_;  // [num_tensors, num_devices], received
  IdVector<DeviceId, Bytes> used_;
  IdVector<DeviceId, Bytes> peak_;
};

PlacerResult pytorch_topo(const Graph& graph, const IdVector<DeviceId, Bytes>& limits,
                          const PlacerOptions& options);

/// Ops that may start, with the earliest start of each on each device. The order of the rows does
/// not matter: Scheduler::rank breaks all ties.
class ReadyOps {
 public:
  static constexpr TimePoint never = TimePoint::max();

  explicit ReadyOps(std::size_t devices) : devices_(devices) {}

  std::size_t size() const { return ops_.size(); }
  OpId op(std::size_t row) const { return ops_[row]; }
  /// Earliest start; never: the original has no entry.
  TimePoint& time(std::size_t row, DeviceId d) { return times_[row * devices_ + index(d)]; }
  TimePoint time(std::size_t row, DeviceId d) const { return times_[row * devices_ + index(d)]; }
  /// The latest of the times, taken before groups are checked; never if there is none.
  TimePoint& urgent(std::size_t row) { return urgent_[row]; }
  TimePoint urgent(std::size_t row) const { return urgent_[row]; }

  /// Estimated arrival of the last input, cached until a channel that it depends on moves.
  struct Estimate {
    TimePoint ready{};
    std::uint64_t channels =
        ~std::uint64_t{0};  ///< bit d % 64 for each device; all bits: not computed yet
  };
  Estimate& estimate(std::size_t row, DeviceId d) { return estimates_[row * devices_ + index(d)]; }

  void add(OpId v);
  void remove(std::size_t row);

 private:
  std::size_t devices_;
  std::vector<OpId> ops_;            // [size]
  std::vector<TimePoint> times_;     // [size, devices]
  std::vector<TimePoint> urgent_;    // [size]
  std::vector<Estimate> estimates_;  // [size, devices]
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  PlacerResult run();

 protected:
  Scheduler(const Graph& graph, const IdVector<DeviceId, Bytes>& limits,
            const PlacerOptions& options, std::span<const std::uint32_t> favourites, Log* log);

  // The differences between the two systems. All but fits() throw Stop where the original asserts.

  /// Whether `v` could start on `d` now.
  virtual bool fits(OpId v, DeviceId d) const = 0;
  /// When the inputs of `v` would arrive on `d`.
  virtual ReadyOps::Estimate estimate(OpId v, DeviceId d) const = 0;
  /// Removes a ready op's times on devices where its group does not fit.
  virtual void exclude_devices(std::size_t /*row*/) {}
  /// Places `v` on `d`, sends its inputs, books its memory; returns when the inputs arrive.
  virtual TimePoint commit(OpId v, DeviceId d, TimePoint estimated) = 0;
  /// Called once `v` has been started on `d` and counted.
  virtual void started(OpId /*v*/, DeviceId /*d*/) {}
  virtual const IdVector<DeviceId, Bytes>& used() const = 0;
  virtual const IdVector<DeviceId, Bytes>& peak() const = 0;

  auto devices() const { return id_range<DeviceId>(0, limits_.size()); }

  const Graph& graph_;
  const IdVector<DeviceId, Bytes>& limits_;
  const PlacerOptions& options_;
  Log* log_;
  ReadyOps ready_;
  IdVector<OpId, TimePoint> end_;
  std::uint64_t moved_channels_ = 0;  // since estimates were last checked; bit d % 64
  PlacerResult result_;

 private:
  /// An op that a device would start. Q3: its time may be `never`, if the device is awake.
  struct Candidate {
    std::size_t row;
    DeviceId device;
    TimePoint time;
    std::uint32_t rank;
  };

  void step();
  void make_ready(OpId v);
  void count_finished(DeviceId d);
  void update_times();
  void update_row(std::size_t row);

  /// Breaks ties between ops that could start at the same time: the least rank goes first.
  std::uint32_t rank(std::size_t row) const { return rank_[ready_.op(row)]; }
  std::optional<Candidate> choose() const;
  std::optional<std::size_t> candidate(DeviceId d) const;
  std::optional<std::size_t> earliest(DeviceId d) const;
  std::optional<std::size_t> most_urgent(DeviceId d) const;
  std::optional<std::size_t> waits_for(DeviceId d) const;
  TimePoint next_time(DeviceId d) const;
  void start(const Candidate& c);

  bool may_run_on(OpId v, DeviceId d) const {
    return result_.device[v] == no_device || result_.device[v] == d;
  }

  std::span<const std::uint32_t> favourites_;  // [num_ops], or empty for m_etf
  IdVector<OpId, std::uint32_t> rank_;
  std::uint32_t became_ready_ = 0;           // number of ops
  IdVector<OpId, std::uint32_t> ready_row_;  // row in ready_, or ~0
  IdVector<OpId, std::uint32_t> unmet_;      // in-edges whose src has not finished
  IdVector<DeviceId, TimePoint> free_;       // end of the last op
  IdVector<DeviceId, OpId> last_;            // op started last
  TimePoint now_{};
};

/// `favourites`: as of place(); empty for m_etf.
std::unique_ptr<Scheduler> tensorflow_scheduler(const Graph& graph,
                                                const IdVector<DeviceId, Bytes>& limits,
                                                const PlacerOptions& options,
                                                std::span<const std::uint32_t> favourites,
                                                Log* log);
std::unique_ptr<Scheduler> pytorch_scheduler(const Graph& graph,
                                             const IdVector<DeviceId, Bytes>& limits,
                                             const PlacerOptions& options,
                                             std::span<const std::uint32_t> favourites, Log* log);

}  // namespace baechi::original
