/// Event logs as the goldens write them.
#pragma once

#include "sim/original/simulation.h"
#include "tests/golden/record.h"

namespace baechi::golden {

class EventLog final : public original::Log {
 public:
  /// `tensors`: their names; outlive the log.
  explicit EventLog(const std::vector<std::string>& tensors) : tensors_(tensors) {}
  void on_op(const original::OpEvent& e) override;
  void on_transfer(const original::TransferEvent& e) override;

  std::size_t size() const { return events_.size(); }
  /// ["op", id, dev, ready, start, end] and ["xfer", tensor, src_op, dst_op, from_dev, to_dev,
  /// cached, send_start, send_end, recv_start, recv_end], times in us.
  json to_json() const;
  /// 64-bit FNV-1a, 16 hexadecimal digits, of the events as lines, fields joined by spaces.
  std::string fnv1a64() const;

 private:
  struct Event {
    const std::string* tensor = nullptr;  // null: an op
    std::vector<std::int64_t> numbers;
  };
  const std::vector<std::string>& tensors_;
  std::vector<Event> events_;
};

}  // namespace baechi::golden
