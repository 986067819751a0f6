/// Ctrl-C as a wish to stop, not an end.
#pragma once
#include <atomic>
#include <string>
#include <thread>

namespace baechi {

/// While it lives, the first SIGINT sets wanted(); the second ends the program as SIGINT does. Made
/// before other threads are, which are then never interrupted themselves.
class Interrupt {
 public:
  /// `first_answer`: what the first SIGINT is answered: "finishing ...".
  explicit Interrupt(std::string first_answer);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  const std::atomic<bool>& wanted() const { return wanted_; }

 private:
  std::atomic<bool> wanted_ = false;
  std::jthread watcher_;
};

}  // namespace baechi
