#include "tests/golden/events.h"

#include "sim/error.h"

namespace baechi::golden {
namespace {

std::int64_t number(auto id) { return static_cast<std::int64_t>(index(id)); }

std::int64_t whole_us(TimePoint t) {
  const std::int64_t ns = t.time_since_epoch().count();
  BAECHI_CHECK(ns % 1000 == 0, "{} ns is no whole microsecond", ns);
  return ns / 1000;
}

}  // namespace

void EventLog::on_op(const original::OpEvent& e) {
  events_.push_back(
      {nullptr,
       {number(e.op), number(e.device), whole_us(e.ready), whole_us(e.start), whole_us(e.end)}});
}

void EventLog::on_transfer(const original::TransferEvent& e) {
  events_.push_back({&tensors_[index(e.send.tensor)],
                     {number(e.src), number(e.dst), number(e.from), number(e.to), e.cached ? 1 : 0,
                      whole_us(e.booking.send_start), whole_us(e.booking.send_end),
                      whole_us(e.booking.receive_start), whole_us(e.booking.receive_end)}});
}

json EventLog::to_json() const {
  json list = json::array();
  for (const Event& event : events_) {
    json fields = json::array({event.tensor == nullptr ? "op" : "xfer"});
    if (event.tensor != nullptr) fields.push_back(*event.tensor);
    for (const std::int64_t n : event.numbers) fields.push_back(n);
    if (event.tensor != nullptr) fields[6] = event.numbers[4] != 0;
    list.push_back(std::move(fields));
  }
  return list;
}

std::string EventLog::fnv1a64() const {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const Event& event : events_) {
    const std::string line =
        fmt::format("{}{} {}\n", event.tensor == nullptr ? "op" : "xfer ",
                    event.tensor == nullptr ? "" : *event.tensor, fmt::join(event.numbers, " "));
    for (const char c : line) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace baechi::golden
