#include "sim/collectives/collective_models.h"
#include "tests/prelude.h"

namespace {

/// The wires of a DGX-1 with V100s.
const std::vector<std::uint32_t> dgx1{0, 1, 1, 2, 2, 0, 0, 0,  //
                                      1, 0, 2, 1, 0, 2, 0, 0,  //
                                      1, 2, 0, 2, 0, 0, 1, 0,  //
                                      2, 1, 2, 0, 0, 0, 0, 1,  //
                                      2, 0, 0, 0, 0, 1, 1, 2,  //
                                      0, 2, 0, 0, 1, 0, 2, 1,  //
                                      0, 0, 1, 0, 1, 2, 0, 2,  //
                                      0, 0, 0, 1, 2, 1, 2, 0};

Rings rings(std::uint32_t devices, std::vector<std::uint32_t> wires,
            const std::vector<std::size_t>& of) {
  return rings_of(Node{.devices = devices, .wires = std::move(wires)}, of);
}

/// The wires of `devices` devices, one between each two.
std::vector<std::uint32_t> all_to_all(std::size_t devices) {
  std::vector<std::uint32_t> wires(devices * devices, 1);
  for (std::size_t i = 0; i < devices; ++i) wires[i * (devices + 1)] = 0;
  return wires;
}

}  // namespace

TEST_SUITE_BEGIN("rings");
TEST_CASE("two devices: one ring per wire, both directions on the same one") {
  CHECK(rings(8, dgx1, {0, 1}).rings == 1);
  CHECK(rings(8, dgx1, {0, 3}).rings == 2);
  CHECK(rings(8, dgx1, {0, 5}).rings == 0);  // PCIe only
}

TEST_CASE("a cycle of wires carries a ring in each direction") {
  CHECK(rings(3, all_to_all(3), {0, 1, 2}).rings == 2);
  // 0-1-2-3-0 and its chords 0-2, 1-3: two chords make no second circle
  CHECK(rings(4, all_to_all(4), {0, 1, 2, 3}).rings == 2);
  // five devices, four wires each: two circles, 0-1-2-3-4 and 0-2-4-1-3
  CHECK(rings(5, all_to_all(5), {0, 1, 2, 3, 4}).rings == 4);
}

TEST_CASE("if a device has a single neighbour there are chains instead of rings") {
  // 0 - 1 = 2: one wire, then two
  const Rings found = rings(3, {0, 1, 0, 1, 0, 2, 0, 2, 0}, {0, 1, 2});
  CHECK(found.rings == 0);
  CHECK(found.chains == 1);
}

TEST_CASE("the first n devices of a DGX-1") {
  // The fifth GPU is joined to the first alone, by two wires: no ring, two chains.
  std::vector<std::int64_t> found, chains;
  std::vector<std::size_t> devices{0};
  for (std::size_t n = 2; n <= 8; ++n) {
    devices.push_back(n - 1);
    found.push_back(rings(8, dgx1, devices).rings);
    chains.push_back(rings(8, dgx1, devices).chains);
  }
  CHECK(found == std::vector<std::int64_t>{1, 2, 4, 0, 2, 4, 6});
  CHECK(chains == std::vector<std::int64_t>{0, 0, 0, 2, 0, 0, 0});
}

TEST_CASE("bus bandwidths: a ring has its wire's, a chain half of it") {
  const Bandwidth wire{10e9};
  CHECK(Rings{.rings = 4}.bus(4, wire).bytes_per_second == doctest::Approx(40e9));
  // two chains of 5 ranks: 2 x 10 / 2 = 10 GB/s of the buffer, of which a rank sends 8/5
  CHECK(Rings{.chains = 2}.bus(5, wire).bytes_per_second == doctest::Approx(16e9));
  CHECK(Rings{}.bus(5, wire).bytes_per_second == 0.0);
}
