// The tables of unit/: one record per entry.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "placers/compat/compat.h"
#include "sim/cluster/cost_model.h"
#include "sim/error.h"
#include "tests/golden/goldens.h"
#include "tests/golden/replay.h"

namespace baechi::golden {
namespace {

using Graphs = std::function<json(const std::string&)>;

void check_comm_cost(Record& record) {
  const BaechiCosts::Fit fit{.us_per_byte = record.input("coef").get<double>(),
                             .intercept_us = record.input("intercept").get<double>()};
  json got = json::array();
  for (const json& value : record.input("values")) {
    const Bytes size{value.at(0).get<std::int64_t>()};
    got.push_back({size.count, us(BaechiCosts::transfer_time(size, fit))});
  }
  record.equal("values", got);
}

void check_rounding(Record& record) {
  const double threshold = record.input("threshold").get<double>();
  json got = json::array();
  for (const json& x : record.input("x"))
    got.push_back(rounds_to_favourite(x.get<double>(), threshold) ? 0 : 1);
  record.equal("rounded", got);
}

void check_favorites(Record& record) {
  const auto num_ops = record.input("num_ops").get<std::size_t>();
  std::vector<BaechiGraph::Read> reads;
  for (const json& edge : record.input("edges"))
    reads.push_back({OpId{edge.at(0).get<std::uint32_t>()}, OpId{edge.at(1).get<std::uint32_t>()}, {}});
  const BaechiGraph graph(IdVector<OpId, BaechiGraph::Op>(num_ops), reads);
  std::vector<bool> chosen(graph.num_edges(), false);
  for (const json& e : record.input("chosen")) chosen.at(e.get<std::size_t>()) = true;
  const Favourites favourites = compat_favourites(graph, chosen);
  record.equal("favorite", ids(favourites.child, no_op));
  record.equal("parent", ids(favourites.parent, no_op));
}

}  // namespace

void check_unit(const std::string& name, const json& table, const std::string& file,
                const Graphs& /*graphs*/, Report& report) {
  if (name == "python_timings") {
    report.skip("timings of the original, which are not results", table.size());
    return;
  }
  for (std::size_t i = 0; i < table.size(); ++i) {
    Record record(report, file, fmt::format("[{}]", i), table[i]);
    if (name == "comm_cost") {
      check_comm_cost(record);
    } else if (name == "rounding") {
      check_rounding(record);
    } else if (name == "favorites") {
      check_favorites(record);
    } else if (name == "groupers") {
      record.leave_out({"edges", "coplace"});
      record.equal("tf", tf_groups(record.input("groups").get<std::vector<std::vector<std::string>>>()));
      report.skip("co-placement groups: co-placement is not built");
    } else {
      report.skip(fmt::format("unit/{}.json: not known here", name));
      continue;
    }
    record.finish();
  }
}

}  // namespace baechi::golden
