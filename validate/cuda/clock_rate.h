/// The SM clock of GPU 0, as NVML tells it where it is there. Read only: nothing is ever set.
#pragma once

namespace baechi::validate::replay {

class ClockRate {
 public:
  ClockRate();

  void sample();

  unsigned lowest() const { return lowest_; }  ///< MHz; 0 if it could not be read
  unsigned highest() const { return highest_; }

 private:
  void* device_ = nullptr;
  int (*clock_info_)(void* device, int type, unsigned* mhz) = nullptr;
  unsigned lowest_ = 0, highest_ = 0;
};

}  // namespace baechi::validate::replay
