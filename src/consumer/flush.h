// Taking what all producers have published so far, within a time.
//
// Runs on the caller's thread, beside the draining one: both take the loop
// mutex for each slice. Trusts no ring to come to an end.
#ifndef TRACERING_SRC_CONSUMER_FLUSH_H_
#define TRACERING_SRC_CONSUMER_FLUSH_H_

#include <chrono>

#include "src/consumer/loop_mutex.h"
#include "src/consumer/session_registry.h"
#include "tracering/consumer.h"

namespace tracering::internal {

// Captures the end of every ring and drains exactly up to there, on the calling
// thread, one slice per ring in turn; the mutex is free between slices. A ring
// whose writers keep winning is tried again until the deadline. What a writer
// holds back delays nothing: its published fragments are taken from it. With a
// `timeout` of 0 or less each ring gets one slice.
FlushResult FlushAll(std::chrono::nanoseconds timeout, LoopMutex* mutex,
                     SessionRegistry* registry);

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_FLUSH_H_
