// pthread_cancel of the program, kept off while we clean up.
//
// Many calls of the C library are points of cancellation, which unwinds: out of
// a destructor that ends the process, and out of a shutdown it leaves the half
// of it undone.
#ifndef TRACERING_SRC_COMMON_OS_NO_CANCELLATION_H_
#define TRACERING_SRC_COMMON_OS_NO_CANCELLATION_H_

#include <pthread.h>

namespace tracering::os {

// The calling thread is not cancelled in its scope. A request waits meanwhile.
class NoCancellation {
 public:
  NoCancellation() noexcept {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_);
  }
  ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace tracering::os

#endif  // TRACERING_SRC_COMMON_OS_NO_CANCELLATION_H_
