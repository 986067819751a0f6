#include "scenarios/query/kinds.h"
#include "scenarios/read/sections.h"
#include "scenarios/run/build.h"

namespace baechi::query {
namespace {

template <NamedEnum E>
E word_of(const Json& json, std::string_view what) {
  const auto word = json.get<std::string>();
  if (const auto value = parse<E>(word)) return *value;
  throw InputError(
      fmt::format("{} '{}' is not one of {}", what, word, fmt::join(all_words<E>(), ", ")));
}

OpWork work_of(const Json& row) {
  OpWork work{.flops = row.at(1).get<std::int64_t>(),
              .traffic = Bytes{row.at(2).get<std::int64_t>()},
              .precision = word_of<Precision>(row.at(3), "dtype")};
  const auto whole = [&](std::size_t i) { return row.at(i).get<std::int64_t>(); };
  if (row.size() > 4)
    work.matrix = {word_of<MatrixKind>(row.at(4), "kind of matrix operation"), whole(5), whole(6),
                   whole(7), whole(8)};
  if (work.flops < 0 || work.traffic < Bytes{}) throw InputError("work below 0");
  return work;
}

}  // namespace

Json answer_kernels(Options& question, const Json& kernels) {
  const Options::Value* device = question.raw("device", "a device type, or its numbers");
  question.finish();
  const auto gpu = device_of(device != nullptr ? *device : Options::Value{}, "device");
  Json times = Json::array();
  for (const Json& row : kernels) {
    const OpWork work = work_of(row);
    if (work.flops > 0 && !(gpu->at(work.precision).peak > FlopRate{}))
      throw InputError(fmt::format("{} has no peak for {}", gpu->name, to_text(work.precision)));
    times.push_back(to_us(kernel_time(work, *gpu, row.at(0).get<std::string>())));
  }
  return {{"times_us", std::move(times)}};
}

Json answer_collectives(Options& question, const Json& collectives) {
  const Options::Value* section = question.raw("cluster", "a scenario's section `cluster`");
  question.finish();
  Mistakes mistakes;
  const ClusterChoice choice = read_cluster(section != nullptr ? *section : Options::Value{}, "",
                                            built_in_devices(), mistakes);
  mistakes.throw_if_any();
  const Cluster cluster = make_cluster(choice);
  Json times = Json::array();
  for (const Json& row : collectives) {
    const auto ranks = row.at(2).get<std::uint32_t>();
    std::vector<DeviceId> devices;
    for (const DeviceId d : cluster.devices())
      if (index(d) < ranks) devices.push_back(d);
    const Collective collective{.kind = word_of<CollectiveKind>(row.at(0), "collective"),
                                .bytes = Bytes{row.at(1).get<std::int64_t>()},
                                .ranks = ranks,
                                .members = static_cast<std::uint32_t>(devices.size())};
    times.push_back(to_us(cluster.collectives().time(collective, devices, cluster)));
  }
  return {{"times_us", std::move(times)}};
}

}  // namespace baechi::query
