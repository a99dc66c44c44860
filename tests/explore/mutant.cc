// Every source with code of a header that a mutant may change, in one
// translation unit, so that no other one brings an unchanged copy of an inline
// function. The changed header comes first in the include path.
#include "src/common/profile/profile_buffer.cc"
#include "src/common/ring/capacity_wait.cc"
#include "src/common/ring/ring.cc"
#include "src/consumer/attached_ring.cc"
#include "src/consumer/chunk_reader.cc"
#include "src/consumer/ring_scheduler.cc"
#include "src/producer/chunk_writer.cc"
#include "src/producer/packet_account.cc"
#include "src/producer/packet_encoder.cc"
#include "src/producer/trace_writer_impl.cc"
#include "tests/explore/ring_monitor.cc"
#include "tests/explore/ring_scenario.cc"
