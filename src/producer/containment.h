// The one place where exceptions end.
//
// Nothing of ours throws, but the standard library does where memory ends, and
// so may a callback of the program. Neither may reach the program's code or
// end one of its threads. Everything here is inline and without state.
#ifndef TRACERING_SRC_PRODUCER_CONTAINMENT_H_
#define TRACERING_SRC_PRODUCER_CONTAINMENT_H_

#include <cxxabi.h>

#include <type_traits>
#include <utility>

namespace tracering::internal {

// What `body` returns, or what `otherwise`, which must not throw, returns in
// its place. pthread_cancel of the program, which unwinds as an exception does,
// passes.
template <typename Body, typename Otherwise>
std::invoke_result_t<const Body&> Contain(const Body& body,
                                          const Otherwise& otherwise) {
  try {
    return body();
  } catch (const ::abi::__forced_unwind&) {
    throw;
  } catch (...) {
    return otherwise();
  }
}

// Undoes what is half-done when the scope is left without Commit.
template <typename Undo>
class Rollback {
 public:
  explicit Rollback(Undo undo) : undo_(std::move(undo)) {}
  ~Rollback() {
    if (armed_) undo_();
  }
  Rollback(const Rollback&) = delete;
  Rollback& operator=(const Rollback&) = delete;

  void Commit() { armed_ = false; }

 private:
  const Undo undo_;
  bool armed_ = true;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_CONTAINMENT_H_
